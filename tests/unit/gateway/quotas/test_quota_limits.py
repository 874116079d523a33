"""Whose quota a client has: Kafka's order (`DefaultQuotaCallback`), without the most specific one after the other."""

from __future__ import annotations

import pytest

from barnabas.cluster.quotas.entities import Entity
from barnabas_gateway.core.model.client_quotas import BUCKETS_MAX, ClientQuotas
from barnabas_gateway.core.model.deadlines import Clock, Deadlines
from barnabas_gateway.core.model.outputs import Turn
from barnabas_gateway.core.model.quota_limits import QuotaLimits
from barnabas_gateway.core.model.request_context import Principal, RequestContext
from tests.unit.gateway.world import CONFIG

KEY = "producer_byte_rate"
IN_ORDER: tuple[tuple[Entity, tuple[str, str]], ...] = (
    ((("client-id", "c"), ("user", "u")), ("u", "c")),
    ((("client-id", None), ("user", "u")), ("u", "c")),
    ((("user", "u"),), ("u", "")),
    ((("client-id", "c"), ("user", None)), ("u", "c")),
    ((("client-id", None), ("user", None)), ("u", "c")),
    ((("user", None),), ("u", "")),
    ((("client-id", "c"),), ("", "c")),
    ((("client-id", None),), ("", "c")),
)


@pytest.mark.parametrize("first", range(len(IN_ORDER)))
def test_the_most_specific_quota_is_a_clients(first: int) -> None:
    quotas = {entity: {KEY: float(number)} for number, (entity, _) in enumerate(IN_ORDER) if number >= first}
    found = QuotaLimits(KEY, quotas).find("u", "c")
    assert found == (IN_ORDER[first][1], float(first))


def test_without_a_quota_that_applies_there_is_none() -> None:
    quotas = {(("user", "other"),): {KEY: 1.0}, (("client-id", "c"),): {"consumer_byte_rate": 1.0}}
    assert QuotaLimits(KEY, quotas).find("u", "c") is None
    assert QuotaLimits(KEY, {(("ip", None),): {"connection_creation_rate": 1.0}}).is_empty()


def test_a_client_that_changes_its_id_makes_a_processor_grow_to_a_bound() -> None:
    quotas = ClientQuotas(CONFIG, Clock(), lambda: 0, Deadlines(), Turn())
    quotas.quotas_changed({(("client-id", None),): {KEY: 10.0}})
    context = RequestContext(1, "PLAINTEXT", "10.0.0.1:1", Principal("User", "u"))
    for number in range(BUCKETS_MAX + 100):
        quotas.produced(context, f"client-{number}", 1)
    assert len(quotas.buckets) == BUCKETS_MAX
    assert len(list(quotas.samples())) <= 3 * 201


def test_clients_that_share_a_quota_share_a_bucket() -> None:
    quotas = ClientQuotas(CONFIG, Clock(), lambda: 0, Deadlines(), Turn())
    quotas.quotas_changed({(("user", "u"),): {KEY: 10.0}})
    context = RequestContext(1, "PLAINTEXT", "10.0.0.1:1", Principal("User", "u"))
    assert quotas.produced(context, "a", 100) == 0
    assert quotas.produced(context, "b", 10) == 1000
