"""A client that fetches in a session, and logstores with scripted answers."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from barnabas.channel.messages import ReadPartitionResult, ReadPiece, ReadResponse
from barnabas.wire.api_keys import ApiKey
from barnabas.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic, ForgottenTopic
from tests.unit.gateway.world import TOPIC_ID, Client, ScriptedLogstore, World

BY_NAME, BY_ID = 12, 16
OTHER_ID = b"fedcba9876543210"


@dataclass
class Consumer:
    """A client that fetches in a session, by name or by id."""

    client: Client
    version: int = BY_NAME
    session_id: int = 0
    epoch: int = 0
    ids: dict[str, bytes] = field(default_factory=lambda: {"t": TOPIC_ID})

    def poll(
        self,
        partitions: dict[int, int] | None = None,
        *,
        name: str = "t",
        forget: tuple[int, ...] = (),
        max_wait_ms: int = 500,
        min_bytes: int = 1,
        max_bytes: int = 1 << 20,
        **fields: Any,
    ) -> None:
        """Fetch these partitions, by offset, beside what the session has."""
        asked = [
            FetchPartition(index, -1, offset, partition_max_bytes=1 << 20)
            for index, offset in (partitions or {}).items()
        ]
        topic_id = self.ids.get(name, bytes(16))
        request = FetchRequest(
            max_wait_ms=max_wait_ms,
            min_bytes=min_bytes,
            max_bytes=max_bytes,
            session_id=self.session_id,
            session_epoch=self.epoch,
            topics=[FetchTopic(name, topic_id, asked)] if asked else [],
            forgotten_topics_data=[ForgottenTopic(name, topic_id, list(forget))] if forget else [],
            **fields,
        )
        self.client.ask(request, ApiKey.FETCH, self.version)

    @property
    def answer(self) -> FetchResponse:
        answer = self.client.answers[-1]
        assert isinstance(answer, FetchResponse)
        return answer

    def begin(self, partitions: dict[int, int], **fields: Any) -> None:
        """A full fetch that is answered at once, and the session that it begins."""
        self.epoch = 0
        self.poll(partitions, max_wait_ms=0, **fields)
        answer_empty(self.client.world)
        self.session_id, self.epoch = self.answer.session_id, 1
        assert self.session_id > 0

    def next(self, partitions: dict[int, int] | None = None, **fields: Any) -> None:
        """The session's next fetch."""
        self.poll(partitions, **fields)
        self.epoch += 1

    def returned(self) -> dict[tuple[str | bytes, int], tuple[int, bytes]]:
        """Error and records by partition."""
        return {
            (each.topic_id if self.version >= 13 else each.topic, one.partition_index): (
                one.error_code,
                bytes(one.records or b""),
            )
            for each in self.answer.responses
            for one in each.partitions
        }


def answer_read(logstore: ScriptedLogstore, records: dict[int, bytes] | None = None, **result: Any) -> list[int]:
    """Answer the oldest read with records by partition; the partitions that it was about, in its order."""
    read = logstore.reads.pop(0)
    known = {"high_watermark": 10, "last_stable_offset": 10, "log_start_offset": 0, "leader_epoch": 5}
    results = [
        ReadPartitionResult(index, records=(records or {}).get(asked.partition, b""), **(known | result))
        for index, asked in enumerate(read.partitions)
    ]
    piece = ReadPiece(read.request_id, True, results)
    logstore.world.processor.read_response(logstore.node_id, ReadResponse(pieces=[piece]), logstore.world.now_ms)
    logstore.world.turn()
    return [asked.partition for asked in read.partitions]


def answer_empty(world: World) -> None:
    for logstore in world.logstores.values():
        while logstore.reads:
            answer_read(logstore)


def key(consumer: Consumer, partition: int) -> tuple[str | bytes, int]:
    return (TOPIC_ID if consumer.version == BY_ID else "t", partition)
