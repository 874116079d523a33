"""Records to be read that are gone: the reason, the message, and the advice."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any, assert_never

from barnabas_pipeline.core.positions import TopicPartition


class LossReason(StrEnum):
    RETENTION = "retention"
    RECREATED = "recreated"
    DELETED = "deleted"
    TRUNCATED = "truncated"


class OnDataLoss(StrEnum):
    """`FAIL` ends the job; `RECORD` and `CONTINUE` continue with the records that exist, the first after recording
    those that don't."""

    FAIL = "fail"
    RECORD = "record"
    CONTINUE = "continue"


@dataclass(frozen=True, slots=True)
class Loss:
    """The offsets from `start` up to, but excluding, `end`; equal ones if the extent is unknown."""

    topic: str
    topic_id: str
    partition: int
    start: int
    end: int
    reason: LossReason

    @property
    def key(self) -> str:
        """The same loss has the same key when it is noticed again."""
        return f"{self.topic}:{self.topic_id}:{self.partition}:{self.start}:{self.end}:{self.reason}"

    def to_dict(self) -> dict[str, Any]:
        return {
            "topic": self.topic,
            "topic_id": self.topic_id,
            "partition": self.partition,
            "start_offset": self.start,
            "end_offset": self.end,
            "reason": self.reason.value,
        }

    def __str__(self) -> str:
        partition = TopicPartition(self.topic, self.partition)
        match self.reason:
            case LossReason.RETENTION:
                return (
                    f"{partition}: offsets {self.start} to {self.end - 1} are gone, deleted by retention or on demand"
                )
            case LossReason.RECREATED:
                return (
                    f"{partition}: topic {self.topic} was deleted and recreated (its id was {self.topic_id}): "
                    f"what it held from offset {self.start} on is gone"
                )
            case LossReason.DELETED:
                return f"{partition}: topic {self.topic} is gone, with its records from offset {self.start} on"
            case LossReason.TRUNCATED:
                return (
                    f"{partition}: the log ends before offset {self.end}, its earlier end: the records after "
                    f"{self.start} is lost (an unclean election)"
                )
            case _:
                assert_never(self.reason)


def loss_advice(policy_option: str) -> str:
    """How to continue nevertheless: the end of an error message."""
    return (
        f"To continue with the existing records, set {policy_option} to 'continue', or to 'record' with dataLossTopic; "
        "to start over, delete the checkpoint"
    )
