"""With 10,000 ACLs the authorizer costs a produce at most 2 % of its instructions; a search does not grow with them."""

from __future__ import annotations

from barnabas_gateway.core.model.config import AuthorizerConfig
from tests.authorization.cost import ACLS, many_acls, produce_instructions
from tests.compiled import COUNTS, interpreted_only
from tests.unit.house.request_path import Cluster

pytestmark = interpreted_only(COUNTS)

WARM_UP = 30


def warm(authorizer: AuthorizerConfig | None = None, acls: int = 0) -> Cluster:
    cluster = Cluster(authorizer, many_acls(acls) if acls else ())
    for _ in range(WARM_UP):
        assert not cluster.produce().responses[0].partition_responses[0].error_code
    return cluster


def test_a_remembered_decision_costs_a_produce_2_percent_at_most() -> None:
    without = produce_instructions(warm())
    assert produce_instructions(warm(AuthorizerConfig(True), ACLS)) <= without * 1.02


def test_a_search_does_not_grow_with_the_acls_of_others() -> None:
    few, many = (warm(AuthorizerConfig(True), count) for count in (50, ACLS))
    searched = [produce_instructions(cluster, cluster.processor.authorizer._decisions.clear) for cluster in (few, many)]
    assert searched[1] <= searched[0] * 1.05
