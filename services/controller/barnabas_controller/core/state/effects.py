"""What the controller's core wants done: `ControllerCore.take_outputs()` returns the `Outputs` of its turns.

The host carries the effects out in order and reports back by the `on_*` methods.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

from barnabas.cluster.controller_calls.table import MembershipResponse
from barnabas.cluster.messages import ControlRequest, UpdateMetadata
from barnabas.ports.etcd import Txn
from barnabas_controller.core.state.operator_requests import OperatorResponse


@dataclass(slots=True, frozen=True)
class SubmitTxn:
    """Answered by one of `on_txn_result`, `on_txn_ambiguous`, `on_txn_refused` with the same id; never retried."""

    txn_id: int
    txn: Txn


@dataclass(slots=True, frozen=True)
class RevokeLease:
    """The owner of the lease has certainly stopped."""

    lease: int


@dataclass(slots=True, frozen=True)
class ConnectControl:
    """Keep a control stream open to this registration of the node, until DisconnectControl."""

    node_id: int
    broker_epoch: int
    control_address: str
    data_address: str


@dataclass(slots=True, frozen=True)
class DisconnectControl:
    node_id: int
    broker_epoch: int


@dataclass(slots=True, frozen=True)
class SendControl:
    """Send on the node's present stream; dropped if that is gone, since the next one begins with the full state."""

    node_id: int
    broker_epoch: int
    request: ControlRequest


@dataclass(slots=True, frozen=True)
class PublishMetadata:
    """Send to these subscribers."""

    update: UpdateMetadata
    subscriber_ids: frozenset[int]


@dataclass(slots=True, frozen=True)
class EndSubscription:
    """This controller is not active, or not any more: the subscriber has to find the active one."""

    subscriber_id: int


@dataclass(slots=True, frozen=True)
class Respond:
    request_id: int
    response: MembershipResponse | OperatorResponse


@dataclass(slots=True, frozen=True)
class Reject:
    """This controller is not active, or not any more. `untouched`: the request has certainly changed nothing."""

    request_id: int
    untouched: bool


@dataclass(slots=True, frozen=True)
class ActiveChanged:
    active: bool
    controller_epoch: int


Effect: TypeAlias = (
    SubmitTxn
    | RevokeLease
    | ConnectControl
    | DisconnectControl
    | SendControl
    | PublishMetadata
    | EndSubscription
    | Respond
    | Reject
    | ActiveChanged
)


@dataclass(slots=True)
class Outputs:
    """The effects of one turn, or of several, in the order in which they are to be carried out."""

    effects: list[Effect] = field(default_factory=list)
