"""A subscription has the role of its certificate, whatever its first message says.

Purgatories and gateways may both subscribe. One with a purgatory's certificate that said "gateway" got the SCRAM
credentials and delegation tokens of all users, and the calls of operators.
"""

from __future__ import annotations

from typing import Any, cast

import pytest

from barnabas.cluster.keys import Role
from barnabas.runtime.inter_service.identity import Certified
from barnabas_controller.shell.membership import _Subscription
from barnabas_protos.controller.v1 import membership_pb2 as pb

GATEWAY, PURGATORY = frozenset({Role.GATEWAY}), frozenset({Role.PURGATORY})


class Stream:
    def __init__(self, caller: Certified | None) -> None:
        self.caller = caller
        self.closed: list[str] = []

    def close(self, reason: str) -> None:
        self.closed.append(reason)


class Core:
    active = True


class Driver:
    core = Core()

    def __init__(self) -> None:
        self.subscribed: list[Role] = []

    def subscribe(self, _stream: object, role: Role, _pod_id: str) -> int:
        self.subscribed.append(role)
        return 1


class Records:
    def __init__(self) -> None:
        self.takers: list[int] = []

    def add_taker(self, subscriber_id: int, _stream: object) -> None:
        self.takers.append(subscriber_id)


@pytest.mark.parametrize(
    ("certified", "claimed", "subscribed", "takes"),
    [
        (PURGATORY, "gateway", [], 0),
        (GATEWAY, "purgatory", [], 0),
        (frozenset[Role](), "gateway", [], 0),
        (PURGATORY, "purgatory", [Role.PURGATORY], 0),
        (GATEWAY, "gateway", [Role.GATEWAY], 1),
        (GATEWAY | PURGATORY, "gateway", [Role.GATEWAY], 1),
        (None, "gateway", [Role.GATEWAY], 1),
    ],
)
def test_a_subscription_has_a_role_of_its_certificate(
    certified: frozenset[Role] | None, claimed: str, subscribed: list[Role], takes: int
) -> None:
    caller = None if certified is None else Certified(certified)
    stream, driver, records = Stream(caller), Driver(), Records()
    subscription = _Subscription(cast("Any", stream), cast("Any", driver), cast("Any", records))
    first = pb.SubscribeRequest(role=claimed, pod_id="p", takes_operator_calls=True)
    subscription.on_message(first.SerializeToString())
    assert driver.subscribed == subscribed
    assert len(records.takers) == takes
    assert bool(stream.closed) is not bool(subscribed)
