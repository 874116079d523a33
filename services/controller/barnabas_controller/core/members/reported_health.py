"""What members report of their own health (`Membership.ReportHealth`), as long as their registrations last, and what
the active controller says of itself.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from barnabas.cluster.keys import Role
from barnabas.containment import Containment
from barnabas.metrics.conditions import Condition, bounded
from barnabas.metrics.recent_exceptions import RecentExceptions
from barnabas_controller.core.state.image import ControllerImage


class MemberCondition(NamedTuple):
    role: Role
    member_id: str
    condition: Condition


class ReportedHealth:
    """Members report again to another active controller: nothing of it is stored."""

    def __init__(self, image: ControllerImage, controller_id: str, contained: Containment) -> None:
        """`contained` has the exceptions of the controller itself, which is `controller_id`."""
        self._image = image
        self._controller_id = controller_id
        self._contained = contained
        self._exceptions = RecentExceptions()
        self.own_source: Callable[[], Sequence[Condition]] = tuple
        """Returns what the controller's host has to say."""
        self._by_member: dict[tuple[Role, str], tuple[str, list[Condition]]] = {}

    def report(self, role: Role, member_id: str, incarnation: str, conditions: Sequence[Condition]) -> bool:
        """Take a report in place of the one before. Return False if the member is not registered so."""
        if self._incarnation(role, member_id) != incarnation:
            return False
        self._by_member[role, member_id] = incarnation, bounded(conditions)
        return True

    def follow_own(self, now_ms: int) -> None:
        """Look at what the controller has contained itself; `now_ms` is of a monotonic clock."""
        self._exceptions.follow({place.name: count for place, count in self._contained.counts.items()}, now_ms)

    def conditions(self) -> list[MemberCondition]:
        """Return the controller's own, and those of members that are registered, by role and id; forget the others."""
        self._by_member = {
            (role, member_id): reported
            for (role, member_id), reported in self._by_member.items()
            if self._incarnation(role, member_id) == reported[0]
        }
        own = [*self._exceptions.conditions(), *self.own_source()]
        return [MemberCondition(Role.CONTROLLER, self._controller_id, each) for each in own] + [
            MemberCondition(role, member_id, condition)
            for (role, member_id), (_, conditions) in sorted(self._by_member.items(), key=_order)
            for condition in conditions
        ]

    def _incarnation(self, role: Role, member_id: str) -> str | None:
        image = self._image
        match role:
            case Role.LOGSTORE:
                logstore = next((each for node_id, each in image.logstores.items() if str(node_id) == member_id), None)
                return None if logstore is None else logstore.record.incarnation
            case Role.GATEWAY:
                gateway = image.gateways.get(member_id)
                return None if gateway is None else gateway.record.incarnation
            case Role.PURGATORY:
                purgatory = image.purgatories.get(member_id)
                return None if purgatory is None else purgatory.record.incarnation
            case Role.CONTROLLER:
                return None


def _order(reported: tuple[tuple[Role, str], tuple[str, list[Condition]]]) -> tuple[str, int, str]:
    """By role, and by id as a person sorts numbers."""
    (role, member_id), _ = reported
    return role.value, len(member_id), member_id
