"""ACLs change while gateways and controllers die, stop and are cut off: who was answered is obeyed by every gateway."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from barnabas.cluster.messages import CreateAclsRequest, DeleteAclsRequest, UpdateMetadata
from barnabas_controller.core.requests import request_decisions
from barnabas_controller.core.requests.request_decisions import Decision, RequestDecisions
from barnabas_gateway.core.model.authorizer import Authorizer
from tests.sim.clients.acl_administrator import AUTHORIZER, AclAdministrator
from tests.sim.cluster import Cluster
from tests.sim.faults import Fault, Faults
from tests.sim.scheduler import MS, SECOND, InvariantViolation, Scheduler
from tests.sim.topology import Shape, TopicShape
from tests.tiers import seeds

FAULTS = [
    Fault.KILL_GATEWAY,
    Fault.KILL_CONTROLLER,
    Fault.PAUSE,
    Fault.CUT,
    Fault.ISOLATE,
    Fault.JITTER,
    Fault.WATCH_LAG,
    Fault.LEASE_ENDS_EARLY,
]
SECONDS = 12


def play(seed: int, faults: list[Fault]) -> AclAdministrator:
    shape = Shape(logstores=1, gateways=3, purgatories=1, controllers=2, topics={"orders": TopicShape(1, 1)})
    cluster = Cluster(Scheduler(seed), shape)
    for gateway in cluster.gateways:
        gateway.configure = partial(replace, authorizer=AUTHORIZER)
    administrator = AclAdministrator("administrator", cluster.client_environment, cluster.gateways)
    for controller in cluster.controllers:
        controller.acls_answered = administrator.answered
    cluster.start()
    administrator.start()
    under_way = Faults(cluster, faults, 700 * MS)
    under_way.start()
    cluster.run_for(SECONDS * SECOND)
    under_way.heal()
    before = administrator.changes
    cluster.wait_until(lambda: administrator.changes >= before + 4, "ACLs change again")
    return administrator


@pytest.mark.parametrize("seed", seeds(range(1, 31), quick=3))
def test_every_gateway_decides_by_what_was_answered(seed: int) -> None:
    assert play(seed, FAULTS).changes > 10


def test_nothing_goes_wrong_without_faults() -> None:
    assert play(1, []).changes > 50


def controller_does_not_wait_for_gateways(monkeypatch: pytest.MonkeyPatch) -> None:
    """A gateway without the ACL allows."""
    original = RequestDecisions.decide

    def decide(self: RequestDecisions, request_id: int, request: Any, *rest: int) -> Any:
        decision: Decision = yield from original(self, request_id, request, *rest)
        if isinstance(request, (CreateAclsRequest, DeleteAclsRequest)):
            decision[0].gateways_must_know = False
        return decision

    monkeypatch.setattr(request_decisions.RequestDecisions, "decide", decide)


def decisions_outlive_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was decided before is remembered, also for the names to come."""
    original = Authorizer.metadata_updated

    def metadata_updated(self: Authorizer, update: UpdateMetadata) -> None:
        kept = dict(self._decisions)
        original(self, update)
        self._decisions.update(kept)

    monkeypatch.setattr(Authorizer, "metadata_updated", metadata_updated)


def removed_acls_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    original = Authorizer.metadata_updated

    def metadata_updated(self: Authorizer, update: UpdateMetadata) -> None:
        update.removed_acls.clear()
        original(self, update)

    monkeypatch.setattr(Authorizer, "metadata_updated", metadata_updated)


@pytest.mark.parametrize("plant", [controller_does_not_wait_for_gateways, decisions_outlive_changes, removed_acls_stay])
def test_mutants_are_noticed(plant: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch)
    with pytest.raises(InvariantViolation, match="I15"):
        play(1, [])
