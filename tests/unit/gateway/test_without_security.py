"""What a cluster without security, features and transactions answers to those who administrate them."""

from __future__ import annotations

from typing import Any

import pytest

from barnabas.wire.api_keys import ApiKey
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.create_acls import AclCreation, CreateAclsRequest
from barnabas.wire.messages.create_delegation_token import CreateDelegationTokenRequest
from barnabas.wire.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from barnabas.wire.messages.describe_acls import DescribeAclsRequest
from barnabas.wire.messages.describe_delegation_token import DescribeDelegationTokenRequest
from barnabas.wire.messages.describe_user_scram_credentials import DescribeUserScramCredentialsRequest, UserName
from barnabas.wire.messages.expire_delegation_token import ExpireDelegationTokenRequest
from barnabas.wire.messages.renew_delegation_token import RenewDelegationTokenRequest
from barnabas.wire.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from tests.unit.gateway.world import World


def answer(request: Any, api_key: ApiKey, version: int) -> Any:
    client = World().client()
    client.ask(request, api_key, version)
    (answered,) = client.answers
    return answered


def versions(*api_keys: ApiKey) -> list[tuple[ApiKey, int]]:
    return [(key, version) for key in api_keys for version in range(key.version_min, key.version_max + 1)]


@pytest.mark.parametrize(("api_key", "version"), versions(ApiKey.DESCRIBE_ACLS))
def test_acls_are_not_described(api_key: ApiKey, version: int) -> None:
    described = answer(DescribeAclsRequest(1, None, 3, None, None, 1, 1), api_key, version)
    assert (described.error_code, described.resources) == (ErrorCode.SECURITY_DISABLED, [])
    assert described.error_message


@pytest.mark.parametrize(("api_key", "version"), versions(ApiKey.CREATE_ACLS))
def test_no_acl_is_created(api_key: ApiKey, version: int) -> None:
    creation = AclCreation(2, "t", 3, "User:a", "*", 3, 3)
    created = answer(CreateAclsRequest([creation, creation]), api_key, version)
    assert [each.error_code for each in created.results] == [ErrorCode.SECURITY_DISABLED] * 2


@pytest.mark.parametrize(("api_key", "version"), versions(ApiKey.DELETE_ACLS))
def test_no_acl_is_deleted(api_key: ApiKey, version: int) -> None:
    matching = DeleteAclsFilter(1, None, 3, None, None, 1, 1)
    deleted = answer(DeleteAclsRequest([matching, matching]), api_key, version)
    assert [each.error_code for each in deleted.filter_results] == [ErrorCode.SECURITY_DISABLED] * 2


@pytest.mark.parametrize(
    ("api_key", "version"),
    versions(
        ApiKey.CREATE_DELEGATION_TOKEN,
        ApiKey.RENEW_DELEGATION_TOKEN,
        ApiKey.EXPIRE_DELEGATION_TOKEN,
        ApiKey.DESCRIBE_DELEGATION_TOKEN,
    ),
)
def test_no_client_has_authenticated_for_a_token(api_key: ApiKey, version: int) -> None:
    requests = {
        ApiKey.CREATE_DELEGATION_TOKEN: CreateDelegationTokenRequest(None, None, [], -1),
        ApiKey.RENEW_DELEGATION_TOKEN: RenewDelegationTokenRequest(b"hmac", 1000),
        ApiKey.EXPIRE_DELEGATION_TOKEN: ExpireDelegationTokenRequest(b"hmac", 1000),
        ApiKey.DESCRIBE_DELEGATION_TOKEN: DescribeDelegationTokenRequest(None),
    }
    answered = answer(requests[api_key], api_key, version)
    assert answered.error_code == ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED


def test_who_asks_for_a_token_and_for_whom_is_returned() -> None:
    own = answer(CreateDelegationTokenRequest(None, None, [], -1), ApiKey.CREATE_DELEGATION_TOKEN, 3)
    assert (own.principal_name, own.token_requester_principal_name) == ("ANONYMOUS", "ANONYMOUS")
    others = answer(CreateDelegationTokenRequest("User", "a", [], -1), ApiKey.CREATE_DELEGATION_TOKEN, 3)
    assert (others.principal_name, others.token_requester_principal_name) == ("a", "ANONYMOUS")


def test_no_user_has_scram_credentials() -> None:
    everybody = answer(DescribeUserScramCredentialsRequest(None), ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, 0)
    assert (everybody.error_code, everybody.results) == (0, [])
    asked = [UserName("a"), UserName("b"), UserName("a")]
    described = answer(DescribeUserScramCredentialsRequest(asked), ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, 0)
    assert [(each.user, each.error_code) for each in described.results] == [
        ("a", ErrorCode.DUPLICATE_RESOURCE),
        ("b", ErrorCode.RESOURCE_NOT_FOUND),
    ]


@pytest.mark.parametrize(("api_key", "version"), versions(ApiKey.UPDATE_FEATURES))
def test_no_feature_can_be_updated(api_key: ApiKey, version: int) -> None:
    update = FeatureUpdateKey("group.version", 1)
    refused = answer(UpdateFeaturesRequest(feature_updates=[update]), api_key, version)
    assert (refused.error_code, refused.results) == (ErrorCode.INVALID_UPDATE_VERSION, [])
    assert "group.version" in refused.error_message
    nothing = answer(UpdateFeaturesRequest(feature_updates=[]), api_key, version)
    assert (nothing.error_code, nothing.error_message) == (0, None)
