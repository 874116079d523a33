"""Small queries to a leader's logstore that are in progress."""

from __future__ import annotations

from typing import Protocol, TypeAlias

from barnabas.channel.messages import OffsetAnswer, OffsetQuery, StateAnswer, StateQuery
from barnabas.wire.messages.list_offsets import ListOffsetsPartitionResponse
from barnabas_gateway.core.backends.partition_appends import PendingAppend
from barnabas_gateway.core.timing.request_timing import RequestTiming


class OffsetAsker(Protocol):
    @property
    def timing(self) -> RequestTiming | None: ...

    def offset_answered(self, query: PendingOffsetQuery, answer: OffsetAnswer | None) -> None:
        """A leader's answer, or None when its stream was lost."""

    def failed(self, error: Exception) -> None:
        """An answer has met an unexpected exception."""


class StateAsker(Protocol):
    @property
    def timing(self) -> RequestTiming | None: ...

    def state_answered(self, query: PendingStateQuery, answer: StateAnswer | None) -> None:
        """A leader's state, or None when its stream was lost."""

    def failed(self, error: Exception) -> None:
        """An answer has met an unexpected exception."""


class PendingOffsetQuery(OffsetQuery):
    __slots__ = ("asker", "response")

    def __init__(
        self,
        asker: OffsetAsker,
        topic_id: bytes,
        partition: int,
        current_leader_epoch: int,
        isolation_level: int,
        timestamp: int,
        response: ListOffsetsPartitionResponse,
    ) -> None:
        super().__init__(0, topic_id, partition, current_leader_epoch, isolation_level, timestamp)
        self.asker = asker
        self.response = response

    def __hash__(self) -> int:
        return id(self)

    def __eq__(self, other: object) -> bool:
        return self is other

    def lost(self) -> None:
        self.asker.offset_answered(self, None)


class PendingStateQuery(StateQuery):
    __slots__ = ("append", "asker", "node_id")

    def __init__(self, asker: StateAsker, append: PendingAppend, node_id: int) -> None:
        super().__init__(0, append.topic_id, append.partition, append.record_epoch, append.required_offset)
        self.asker = asker
        self.append = append
        self.node_id = node_id
        """The logstore that is queried."""

    def __hash__(self) -> int:
        return id(self)

    def __eq__(self, other: object) -> bool:
        return self is other

    def lost(self) -> None:
        self.asker.state_answered(self, None)


PendingQuery: TypeAlias = PendingOffsetQuery | PendingStateQuery
