"""What members report of themselves is listed while they are registered, and bounded."""

from __future__ import annotations

from barnabas.cluster.keys import Role
from barnabas.metrics.conditions import CONDITIONS_MAX, TEXT_MAX, Condition, ConditionKind
from barnabas_controller.core.observability.description import describe_nodes, describe_problems
from tests.unit.controller.cluster import ControllerNode
from tests.unit.controller.test_description import a_whole_cluster

HANGING = Condition(ConditionKind.HANGING_TRANSACTION, "a transaction hangs")
RESTARTED = Condition(ConditionKind.PROCESS_RESTARTED, "its cleaner was restarted once")


def incarnation(controller: ControllerNode, role: Role, member_id: str) -> str:
    (found,) = [
        node.incarnation for node in describe_nodes(controller.core) if (node.role, node.member_id) == (role, member_id)
    ]
    return found


def report(
    controller: ControllerNode, *conditions: Condition, role: Role = Role.LOGSTORE, member_id: str = "1"
) -> bool:
    reported = controller.core.reported_health
    return reported.report(role, member_id, incarnation(controller, role, member_id), conditions)


def test_a_problem_is_named_with_its_member_until_it_is_reported_no_more() -> None:
    _, controller = a_whole_cluster()
    assert report(controller, HANGING, RESTARTED)
    assert describe_problems(controller.core) == ["logstore 1: a transaction hangs (hanging-transaction)"]
    assert report(controller, RESTARTED)
    assert describe_problems(controller.core) == []
    assert [each.condition for each in controller.core.reported_health.conditions()] == [RESTARTED]


def test_each_role_reports() -> None:
    _, controller = a_whole_cluster()
    for node in describe_nodes(controller.core):
        taken = report(controller, HANGING, role=node.role, member_id=node.member_id)
        assert taken == (node.role is not Role.CONTROLLER)
    assert len(describe_problems(controller.core)) == 4


def test_a_report_of_another_life_is_not_taken() -> None:
    _, controller = a_whole_cluster()
    reported = controller.core.reported_health
    assert not reported.report(Role.LOGSTORE, "1", "another", [HANGING])
    for stranger in ("7", "x", "", "01", "\u0661", "1" * 5000):
        assert not reported.report(Role.LOGSTORE, stranger, incarnation(controller, Role.LOGSTORE, "1"), [HANGING])
    assert describe_problems(controller.core) == []


def test_what_a_member_reported_is_over_when_it_is_gone() -> None:
    cluster, controller = a_whole_cluster()
    report(controller, HANGING)
    cluster.stop(1)
    cluster.settle()
    assert not [each for each in describe_problems(controller.core) if "hangs" in each]
    assert controller.core.reported_health.conditions() == []


def test_a_report_is_bounded() -> None:
    _, controller = a_whole_cluster()
    report(controller, *[Condition(ConditionKind.OFFLINE_PARTITION, "x" * 10_000)] * 1000)
    kept = controller.core.reported_health.conditions()
    assert len(kept) == CONDITIONS_MAX
    assert {len(each.condition.text) for each in kept} == {TEXT_MAX}
