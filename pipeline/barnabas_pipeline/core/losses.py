"""Records that were to be read and are gone: why, how it is said, and what is to be done about it."""

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
    """`FAIL` ends the job; `RECORD` and `CONTINUE` go on with what is there, the first after it wrote down what is
    not."""

    FAIL = "fail"
    RECORD = "record"
    CONTINUE = "continue"


@dataclass(frozen=True, slots=True)
class Loss:
    """The offsets `start` up to, not including, `end`; equal ones when nobody can say how far it would have gone."""

    topic: str
    topic_id: str
    partition: int
    start: int
    end: int
    reason: LossReason

    @property
    def key(self) -> str:
        """The same loss, noticed again, has the same key."""
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
                    f"{partition}: topic {self.topic} was deleted and made again (its id was {self.topic_id}): "
                    f"what it held from offset {self.start} on is gone"
                )
            case LossReason.DELETED:
                return f"{partition}: topic {self.topic} is gone, with what it held from offset {self.start} on"
            case LossReason.TRUNCATED:
                return (
                    f"{partition}: the log ends before offset {self.end}, where it had been: what lay behind "
                    f"{self.start} is lost (an unclean election)"
                )
            case _:
                assert_never(self.reason)


def loss_advice(policy_option: str) -> str:
    """How to go on all the same: the end of an error."""
    return (
        f"To go on with what is there, set {policy_option} to 'continue', or to 'record' with dataLossTopic; "
        "to begin anew, delete the checkpoint"
    )
