"""Classes of CVEs about doors that stand open without a word of configuration, as they were in Apache Kafka and others.

- CVE-2026-33557, CVE-2026-110985: tokens of OAUTHBEARER were accepted unverified by default.
- CVE-2023-50976: Redpanda served transactions without a look at the ACLs of their ids.
- CVE-2026-82266: Redpanda's port for administrators was open to other hosts.
- CVE-2023-4785, CVE-2023-44487: connections and streams of gRPC that were opened faster than they were given up.
"""

from __future__ import annotations

import re
from base64 import urlsafe_b64encode
from importlib.metadata import requires, version

import pytest

from barnabas.runtime.rpc import server_options
from barnabas.runtime.tokens.verification_keys import read_keys
from barnabas.wire.api_keys import ApiKey
from barnabas.wire.errors import ErrorCode
from barnabas_controller.shell.config import ControllerConfig
from barnabas_gateway.core.model.config import OAuthConfig
from barnabas_gateway.core.sasl.oauthbearer import InvalidToken
from barnabas_gateway.shell.oauth.access_tokens import AccessTokenValidator
from tests.unit.gateway.authentication.access_tokens import AUDIENCE, ISSUER, NOW_S, claims, jwks, signed
from tests.unit.gateway.request_rights import DENIED, ROWS, TRANSACTION, WRITE, Row
from tests.unit.gateway.test_authorization_of_requests import answered

BOUNDED_IN_GRPC = (1, 57)
_GRPCIO = re.compile(r"^grpcio\b(?!-).*>=\s*([\d.]+)")
TRANSACTIONAL = [row for row in ROWS if (WRITE, TRANSACTION) in row.rights]


class IssuersKeys:
    keys = read_keys(jwks())

    def key_missing(self) -> None:
        """There are no others."""


@pytest.mark.parametrize("head", ["eyJhbGciOiJub25lIn0", "e30"], ids=["alg none", "no alg"])
@pytest.mark.parametrize("signature", ["", "AAAA"])
def test_cve_2026_33557_a_token_without_a_signature_lets_no_client_in(head: str, signature: str) -> None:
    body = signed(claims()).split(".")[1]
    validator = AccessTokenValidator(
        OAuthConfig("file:///keys", ISSUER, (AUDIENCE,)), IssuersKeys(), lambda: NOW_S * 1000
    )
    with pytest.raises(InvalidToken):
        validator.validate(f"{head}.{body}.{signature}")


def test_cve_2026_110985_without_keys_no_token_lets_a_client_in() -> None:
    class NoKeys(IssuersKeys):
        keys = None

    validator = AccessTokenValidator(OAuthConfig("file:///keys", ISSUER, (AUDIENCE,)), NoKeys(), lambda: NOW_S * 1000)
    unsigned = urlsafe_b64encode(b'{"alg":"none"}').rstrip(b"=").decode()
    for token in (signed(claims()), f"{unsigned}.{signed(claims()).split('.')[1]}."):
        with pytest.raises(InvalidToken):
            validator.validate(token)


@pytest.mark.parametrize("row", TRANSACTIONAL, ids=lambda row: row.api_key.name)
def test_cve_2023_50976_a_transaction_needs_a_right_to_its_id(row: Row) -> None:
    others = [right for right in row.rights if right != (WRITE, TRANSACTION)]
    denied = DENIED[TRANSACTION[0]]
    assert denied is ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    assert denied in answered(row, *others)
    assert denied not in answered(row, *row.rights)


def test_every_request_of_a_transaction_is_among_them() -> None:
    assert {row.api_key for row in TRANSACTIONAL} == {
        ApiKey.PRODUCE,
        ApiKey.INIT_PRODUCER_ID,
        ApiKey.ADD_PARTITIONS_TO_TXN,
        ApiKey.ADD_OFFSETS_TO_TXN,
        ApiKey.TXN_OFFSET_COMMIT,
        ApiKey.END_TXN,
    }


def test_cve_2026_82266_operators_are_asked_for_credentials_by_every_other_host() -> None:
    assert ControllerConfig(etcd_endpoints=["a:1"], operations_listeners="127.0.0.1:9090")
    for listener in ("0.0.0.0:9090", "[::]:9090", "10.0.0.5:9090", "controller.example.com:9090"):
        with pytest.raises(ValueError, match="open to other hosts"):
            ControllerConfig(etcd_endpoints=["a:1"], operations_listeners=listener)


def test_cve_2023_44487_streams_of_a_connection_are_bounded() -> None:
    assert dict(server_options())["grpc.max_concurrent_streams"] <= 1000


def test_cve_2023_4785_no_grpc_before_its_mend_is_accepted() -> None:
    lowest = next(found[1] for each in requires("barnabas") or [] if (found := _GRPCIO.search(each)))
    for each in (lowest, version("grpcio")):
        assert tuple(int(part) for part in each.split(".")[:2]) >= BOUNDED_IN_GRPC
