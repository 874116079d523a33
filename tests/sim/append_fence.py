"""What a leader says of appends: success once they are written (I8), committed where the watermark is, and with
acks=all success for no batch that it has given a place while the in-sync replicas were too few (rule 6).

An acknowledgement of acks=1 promises no more than that the leader has it, and no client can tell when it is sent before
the write is done. So it is looked at where it leaves.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from barnabas.channel.messages import Append, AppendResult
from barnabas_logstore.core.logstore import LogstoreCore
from barnabas_logstore.core.replica.partition import Partition
from tests.sim.history import name
from tests.sim.scheduler import InvariantViolation

ALL = -1


@dataclass(slots=True, frozen=True)
class _Quorum:
    """By what a leader judges whether acks=all may be tried."""

    leader_epoch: int
    partition_epoch: int
    in_sync_replicas: tuple[int, ...]
    in_sync_replicas_min: int

    @classmethod
    def of(cls, partition: Partition) -> _Quorum:
        return cls(
            partition.leader_epoch,
            partition.partition_epoch,
            partition.isr.committed,
            min(partition.log.config.min_insync_replicas, len(partition.replicas)),
        )

    @property
    def is_lacking(self) -> bool:
        return len(self.in_sync_replicas) < self.in_sync_replicas_min


class AppendFence:
    """The exchange streams of one logstore's life."""

    def __init__(self, logstore: str, core: LogstoreCore) -> None:
        self._logstore = logstore
        self._by_key = core._replicas.by_key
        # By stream and request: where it goes, and of acks=all under the minimum: what the leader knew when it came.
        self._appends: dict[tuple[int, int], tuple[tuple[bytes, int], _Quorum | None]] = {}

    def received(self, stream_id: int, appends: Iterable[Append]) -> None:
        for append in appends:
            key = (append.topic_id, append.partition)
            partition = self._by_key.get(key)
            quorum = _Quorum.of(partition) if append.acks == ALL and partition is not None else None
            self._appends[stream_id, append.request_id] = (
                key,
                quorum if quorum is not None and quorum.is_lacking else None,
            )

    def answered(self, stream_id: int, results: Iterable[AppendResult]) -> None:
        for result in results:
            key, lacking = self._appends.pop((stream_id, result.request_id))
            partition = self._by_key.get(key)
            if result.error_code or partition is None:
                continue
            if result.required_offset > partition.log.log_end_offset:
                raise InvariantViolation(
                    f"I8: {self._logstore} says that {name(key)} is written up to {result.required_offset}, and has "
                    f"written up to {partition.log.log_end_offset}"
                )
            if result.committed and result.required_offset > partition.high_watermark:
                raise InvariantViolation(
                    f"{self._logstore}: {name(key)} up to {result.required_offset} is called committed, where the "
                    f"watermark came to {partition.high_watermark}"
                )
            # The ISR has been the same from when it came until now.
            if lacking is not None and _Quorum.of(partition) == lacking:
                raise InvariantViolation(f"rule 6: {self._logstore} takes acks=all for {name(key)} under {lacking}")
