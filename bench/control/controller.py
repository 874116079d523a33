"""`python -m bench.control.controller NODE_ADDRESS RECORDING …`: the product's controller, that notes what it does.

NODE_ADDRESS is the control listener of the logstore whose commands are of interest.
"""

from __future__ import annotations

import sys
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from pathlib import Path
from typing import ClassVar

from barnabas.cluster.keys import Keys, PartitionChunk, decode_record
from barnabas.cluster.messages import ControlRequest, ControlResponse
from barnabas.ports.etcd import Put, Snapshot, Txn, TxnResult, WatchBatch
from barnabas.runtime.etcd import EtcdClient
from barnabas.runtime.etcd import config as etcd_config
from barnabas.runtime.protobuf import from_proto
from bench.control.recording import EpochKey, Event, Recording, epochs_of
from protos.logstore.v1 import control_pb2
from services.controller.__main__ import main as serve
from services.controller.shell import driver
from services.controller.shell.control_stream import ControlStream


class NotingClient(EtcdClient):
    """Notes what has been committed at the first that is heard of it: etcd's answer to the Txn, or its watch."""

    recording: ClassVar[Recording]

    async def txn(self, txn: Txn) -> TxnResult:
        result = await super().txn(txn)
        if result.succeeded:
            self._note({put.key: put.value for put in txn.success if isinstance(put, Put)})
        return result

    async def watch(self, prefix: str) -> AsyncGenerator[Snapshot | WatchBatch, None]:
        async with aclosing(super().watch(prefix)) as changes:
            async for change in changes:
                if isinstance(change, WatchBatch):
                    written = [event.key_value for event in change.events if not event.deleted]
                    self._note({each.key: each.value for each in written})
                yield change

    def _note(self, values: dict[str, bytes]) -> None:
        at_ns = time.monotonic_ns()
        epochs = [epoch for key, value in values.items() for epoch in _epochs_in(key, value)]
        if epochs:
            self.recording.note(Event.COMMITTED, epochs, at_ns)


def _epochs_in(key: str, value: bytes) -> list[EpochKey]:
    record = decode_record(_KEYS, key, value)
    if not isinstance(record, PartitionChunk):
        return []
    return [(record.topic_id.hex(), number, each.leader_epoch) for number, each in enumerate(record.partitions)]


_KEYS = Keys()


class NotingStream(ControlStream):
    """Notes what goes to the one logstore, and its answers."""

    recording: ClassVar[Recording]
    noted_address: ClassVar[str]

    def __init__(
        self,
        control_address: str,
        data_address: str,
        on_up: Callable[[], None],
        on_response: Callable[[ControlResponse], None],
        on_down: Callable[[], None],
        on_gone: Callable[[], None],
    ) -> None:
        super().__init__(control_address, data_address, on_up, self._note_response, on_down, on_gone)
        self._is_noted = control_address == self.noted_address
        self._pass_on = on_response
        self._unanswered: dict[int, list[EpochKey]] = {}

    def send(self, data: bytes) -> None:
        if self._is_noted:
            sent_ns = time.monotonic_ns()
            request = from_proto(ControlRequest, control_pb2.ControlRequest.FromString(data))
            if epochs := epochs_of(request):
                self._unanswered[request.sequence] = epochs
                self.recording.note(Event.SENT, epochs, sent_ns)
        super().send(data)

    def _note_response(self, response: ControlResponse) -> None:
        epochs = self._unanswered.pop(response.sequence, None)
        if epochs is not None:
            self.recording.note(Event.ACKNOWLEDGED, epochs)
        self._pass_on(response)


def main() -> None:
    NotingStream.noted_address = sys.argv[1]
    NotingClient.recording = NotingStream.recording = Recording(Path(sys.argv[2]))
    del sys.argv[1:3]
    # The two seams: the driver and the configuration make them by these names.
    setattr(driver, "ControlStream", NotingStream)  # noqa: B010
    setattr(etcd_config, "EtcdClient", NotingClient)  # noqa: B010
    serve()


if __name__ == "__main__":
    main()
