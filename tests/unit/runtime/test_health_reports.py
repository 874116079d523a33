"""A member reports its conditions when something has changed, and again until they are taken."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import grpc.aio

from barnabas.cluster.keys import Keys, Role
from barnabas.metrics.conditions import Condition, ConditionKind
from barnabas.runtime.active_controller import ActiveController
from barnabas.runtime.clock import monotonic_ms
from barnabas.runtime.contained import ProcessContainment
from barnabas.runtime.health_reports import RECENT_MS, HealthReports, RecentDeaths
from barnabas.runtime.membership import MembershipClient
from barnabas_protos.controller.v1 import membership_pb2 as pb

BEHIND = Condition(ConditionKind.COMPACTION_BEHIND, "a log grows")


class Membership:
    def __init__(self) -> None:
        self.active_revision = 5
        self.takes = True
        self.reported: list[tuple[str, list[Condition]]] = []

    async def report_health(
        self, role: Role, member_id: str, incarnation: str, conditions: Iterable[Condition]
    ) -> bool:
        assert (role, member_id) == (Role.GATEWAY, "gateway-0")
        self.reported.append((incarnation, list(conditions)))
        return self.takes


def reporting() -> tuple[HealthReports, Membership, list[Condition]]:
    membership: Any = Membership()
    present: list[Condition] = []
    reports = HealthReports(Role.GATEWAY, "gateway-0", membership, ProcessContainment(()))
    reports.add_source(lambda: present)
    return reports, membership, present


async def test_it_reports_what_changes_and_nothing_else() -> None:
    reports, membership, present = reporting()
    for _ in range(3):
        await reports.check("first")
    assert membership.reported == [("first", [])]
    present.append(BEHIND)
    for _ in range(3):
        await reports.check("first")
    assert membership.reported[1:] == [("first", [BEHIND])]
    present.clear()
    await reports.check("first")
    assert membership.reported[2:] == [("first", [])]


async def test_another_controller_and_another_registration_get_all_of_it() -> None:
    reports, membership, present = reporting()
    present.append(BEHIND)
    await reports.check("first")
    membership.active_revision = 6
    await reports.check("first")
    await reports.check("second")
    await reports.check("second")
    assert membership.reported == [("first", [BEHIND])] * 2 + [("second", [BEHIND])]


async def test_what_is_not_taken_is_reported_again() -> None:
    reports, membership, _ = reporting()
    membership.takes = False
    await reports.check("first")
    membership.takes = True
    await reports.check("first")
    await reports.check("first")
    assert len(membership.reported) == 2


async def test_samples_have_each_kind() -> None:
    reports, _, present = reporting()
    present += [BEHIND, BEHIND]
    await reports.check("first")
    counted = {sample.labels[0]: sample.value for sample in reports.samples()}
    assert counted == {kind.value: 2 if kind is BEHIND.kind else 0 for kind in ConditionKind}


def test_deaths_of_the_last_hour() -> None:
    now_ms = 0
    deaths = RecentDeaths("its cleaner", lambda: now_ms)
    assert list(deaths.conditions()) == []
    deaths.died(-9)
    now_ms = 1000
    deaths.died(3)
    (condition,) = deaths.conditions()
    assert not condition.is_problem
    assert condition.text == (
        "its cleaner was restarted 2 times in the last hour, last at 1970-01-01 00:00:01 UTC: exited with code 3"
    )
    now_ms = RECENT_MS
    (condition,) = deaths.conditions()
    assert "restarted once" in condition.text
    now_ms = RECENT_MS + 1000
    assert list(deaths.conditions()) == []
    for _ in range(500):
        deaths.died(-11)
    (condition,) = deaths.conditions()
    assert "100 times or more" in condition.text


async def report_to(handler: Any) -> bool:
    """Report to a controller with one method."""
    server = grpc.aio.server()
    if handler is not None:
        handlers = {"ReportHealth": grpc.unary_unary_rpc_method_handler(handler)}
        server.add_generic_rpc_handlers(
            (grpc.method_handlers_generic_handler("barnabas.controller.v1.Membership", handlers),)
        )
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    etcd: Any = None
    client = MembershipClient(etcd, Keys("/barnabas/"), monotonic_ms)
    assert not await client.report_health(Role.LOGSTORE, "1", "first", [BEHIND]), "there is no controller"
    try:
        await client._move_to(ActiveController(f"127.0.0.1:{port}", 7))
        assert client.active_revision == 7
        return await client.report_health(Role.LOGSTORE, "1", "first", [BEHIND])
    finally:
        await client._move_to(None)
        await server.stop(None)


async def test_the_message() -> None:
    got: list[pb.ReportHealthRequest] = []

    async def take(data: bytes, _context: object) -> bytes:
        got.append(pb.ReportHealthRequest.FromString(data))
        return pb.ReportHealthResponse(taken=len(got) > 1).SerializeToString()

    assert not await report_to(take), "it is not registered yet"
    assert await report_to(take)
    expected = pb.HealthCondition(kind="compaction-behind", text="a log grows")
    assert got[0] == pb.ReportHealthRequest(role="logstore", id="1", incarnation="first", conditions=[expected])


async def test_a_controller_that_takes_no_reports_is_not_asked_for_ever() -> None:
    assert await report_to(None)
