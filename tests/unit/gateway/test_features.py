"""Features at the gateway: what ApiVersions reports of them, and UpdateFeatures."""

from __future__ import annotations

from typing import Any

import pytest

from barnabas.cluster import features
from barnabas.cluster.features import (
    SAFE_DOWNGRADE,
    TRANSACTION_VERSION,
    UNSAFE_DOWNGRADE,
    UPGRADE,
    FeatureUpdate,
    finalized_features,
)
from barnabas.wire.api_keys import ApiKey
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.api_versions import ApiVersionsRequest, FinalizedFeatureKey, SupportedFeatureKey
from barnabas.wire.messages.update_features import FeatureUpdateKey, UpdatableFeatureResult, UpdateFeaturesRequest
from tests.unit.gateway.world import Client, World

VERSION_2 = finalized_features(5, {TRANSACTION_VERSION: 2})


def api_versions(client: Client, version: int) -> Any:
    client.ask(ApiVersionsRequest("a", "1"), ApiKey.API_VERSIONS, version)
    return client.answers[-1]


def test_api_versions_reports_what_is_supported_and_finalized() -> None:
    at = World()
    client = at.client()
    before = api_versions(client, 4)
    assert before.supported_features == [SupportedFeatureKey(TRANSACTION_VERSION, 0, 2)]
    assert (before.finalized_features, before.finalized_features_epoch) == ([], 0)
    at.update(finalized_features=VERSION_2)
    after = api_versions(client, 4)
    assert after.finalized_features == [FinalizedFeatureKey(TRANSACTION_VERSION, 2, 2)]
    assert after.finalized_features_epoch == 5
    at.update(full=False, finalized_features=finalized_features(6, {}))
    assert (api_versions(client, 4).finalized_features, api_versions(client, 4).finalized_features_epoch) == ([], 6)


def test_a_minimum_of_0_is_nothing_for_clients_before_version_4() -> None:
    at = World()
    at.update(finalized_features=VERSION_2)
    answer = api_versions(at.client(), 3)
    assert answer.supported_features == []
    assert answer.finalized_features == [FinalizedFeatureKey(TRANSACTION_VERSION, 2, 2)]
    assert api_versions(at.client(), 0).api_keys


def update(client: Client, request: UpdateFeaturesRequest, version: int = 2) -> None:
    client.ask(request, ApiKey.UPDATE_FEATURES, version)


def asked_of_controller(at: World) -> features.UpdateFeaturesRequest:
    request = at.calls[-1].request
    assert isinstance(request, features.UpdateFeaturesRequest)
    return request


@pytest.mark.parametrize("version", [0, 1, 2])
def test_an_update_is_answered_when_this_processor_reports_it(version: int) -> None:
    at = World()
    client = at.client()
    update(client, UpdateFeaturesRequest(1000, [FeatureUpdateKey(TRANSACTION_VERSION, 2)]), version)
    assert asked_of_controller(at).updates == [FeatureUpdate(TRANSACTION_VERSION, 2, UPGRADE)]
    at.controller_answers(features.UpdateFeaturesResponse(0, "", at.revision + 1))
    assert not client.answers
    at.update(finalized_features=VERSION_2)
    (answer,) = client.answers
    assert (answer.error_code, answer.error_message) == (0, None)
    assert answer.results == ([UpdatableFeatureResult(TRANSACTION_VERSION)] if version < 2 else [])


def test_the_last_of_a_name_counts_and_what_is_only_validated_is_passed_on() -> None:
    at = World()
    names = [
        FeatureUpdateKey(TRANSACTION_VERSION, 1),
        FeatureUpdateKey(TRANSACTION_VERSION, 0, upgrade_type=UNSAFE_DOWNGRADE),
    ]
    update(at.client(), UpdateFeaturesRequest(1000, names, validate_only=True))
    asked = asked_of_controller(at)
    assert (asked.updates, asked.validate_only) == ([FeatureUpdate(TRANSACTION_VERSION, 0, UNSAFE_DOWNGRADE)], True)


@pytest.mark.parametrize(("allow_downgrade", "upgrade_type"), [(False, UPGRADE), (True, SAFE_DOWNGRADE)])
def test_version_0_says_only_whether_a_downgrade_is_allowed(*, allow_downgrade: bool, upgrade_type: int) -> None:
    at = World()
    key = FeatureUpdateKey(TRANSACTION_VERSION, 1, allow_downgrade=allow_downgrade)
    update(at.client(), UpdateFeaturesRequest(1000, [key]), 0)
    assert asked_of_controller(at).updates == [FeatureUpdate(TRANSACTION_VERSION, 1, upgrade_type)]


def test_the_controllers_refusal_is_the_clients() -> None:
    at = World()
    client = at.client()
    update(client, UpdateFeaturesRequest(1000, [FeatureUpdateKey(TRANSACTION_VERSION, 1)]), 1)
    code = ErrorCode.INVALID_UPDATE_VERSION
    at.controller_answers(features.UpdateFeaturesResponse(code, "no", at.revision))
    (answer,) = client.answers
    assert (answer.error_code, answer.error_message, answer.results) == (code, "no", [])


def test_without_a_controller_it_is_not_known_whether_it_was_done() -> None:
    at = World()
    client = at.client()
    update(client, UpdateFeaturesRequest(1000, [FeatureUpdateKey(TRANSACTION_VERSION, 1)]))
    at.controller_answers(None)
    assert client.answers[-1].error_code == ErrorCode.REQUEST_TIMED_OUT


def test_unsupported_features_reach_no_controller() -> None:
    at = World()
    client = at.client()
    many = [FeatureUpdateKey(f"feature {number}", 1) for number in range(100)]
    update(client, UpdateFeaturesRequest(1000, [FeatureUpdateKey(TRANSACTION_VERSION, 2), *many]))
    assert client.answers[-1].error_code == ErrorCode.INVALID_UPDATE_VERSION
    assert "feature 0" in client.answers[-1].error_message
    assert not at.calls
