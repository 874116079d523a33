"""Which batch a task has written to topics, from what its last transaction left at the group coordinator.

A task writes its rows of a batch in one transaction, which commits an offset too: the batch's id, in a consumer group
of the task's own. So either both are there or neither, and a task that runs again reads from the group whether its rows
are in the topics. This needs rows that come to the same tasks again, as they do from a source that is read by offsets;
the number of rows is kept with the offset and compared, so that a query of another kind fails instead of losing rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import msgspec

from barnabas_pipeline.core.errors import RequestRefused


class _Metadata(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The committed offset's metadata."""

    run: str
    records: int


@dataclass(frozen=True, slots=True)
class Epoch:
    """What a task has to write once.

    `run_id` is a streaming query's id, which its checkpoint keeps. Each `df.write` has a new one, and one batch, 0.
    """

    transactional_id: str
    """The option's value: that of the task is `task_id`."""
    run_id: str
    batch_id: int
    task: int
    is_stream: bool

    @property
    def task_id(self) -> str:
        """The task's transactional id, and its consumer group."""
        return task_id(self.transactional_id, self.task)


@dataclass(frozen=True, slots=True)
class Written:
    """The last batch of a task that is in the topics."""

    batch_id: int
    run_id: str
    records_count: int


def task_id(transactional_id: str, task: int) -> str:
    return f"{transactional_id}-{task}"


def task_of(transactional_id: str, group_id: str) -> int | None:
    """Return the task whose group it is; None: the group is not of this writer."""
    prefix, dash, number = group_id.rpartition("-")
    is_ours = bool(dash) and prefix == transactional_id and number.isascii() and number.isdecimal()
    return int(number) if is_ours else None


def metadata_of(epoch: Epoch, records_count: int) -> str:
    """Return what is committed with the batch's id."""
    return msgspec.json.encode(_Metadata(epoch.run_id, records_count)).decode()


def parse_written(group_id: str, offset: int, metadata: str | None) -> Written | None:
    """Return what a committed offset says; None: none was committed. Raises RequestRefused: another program's."""
    if offset < 0:
        return None
    try:
        parsed = msgspec.json.decode(metadata or "", type=_Metadata)
    except msgspec.DecodeError:
        raise RequestRefused(
            f"consumer group '{group_id}' has offsets of another program: set another kafka.transactional.id"
        ) from None
    return Written(offset, parsed.run, parsed.records)


def is_written(epoch: Epoch, last: Written | None) -> bool:
    """Whether the task's rows of that batch are in the topics already. Raises RequestRefused where writing them or
    passing over them could be wrong.
    """
    if last is None:
        return False
    if last.run_id != epoch.run_id:
        if epoch.is_stream:
            raise RequestRefused(
                f"kafka.transactional.id '{epoch.transactional_id}' was used by another query, or by this one with "
                f"another checkpoint: its batch {last.batch_id} is written. Set another id; or, if its rows may be "
                f"written again, delete the consumer groups '{epoch.transactional_id}-…'"
            )
        return False
    if last.batch_id > epoch.batch_id:
        raise RequestRefused(
            f"batch {last.batch_id} of this query is written, and batch {epoch.batch_id} is to be: the checkpoint is "
            f"older than the topic. Go on from the newest checkpoint, or with another checkpoint and another "
            f"kafka.transactional.id"
        )
    return last.batch_id == epoch.batch_id


def check_count(epoch: Epoch, last: Written, records_count: int) -> None:
    """Raises RequestRefused if a batch that is repeated has other rows for this task."""
    if records_count != last.records_count:
        raise RequestRefused(
            f"batch {epoch.batch_id}, task {epoch.task}: {last.records_count} rows were written, and when the batch "
            f"was repeated there were {records_count}. The query gives its tasks other rows each time, so they can't "
            f"be written exactly once: write without kafka.transactional.id, or make the query deterministic"
        )


def check_tasks(
    transactional_id: str, run_id: str, batch_id: int, tasks_count: int, found: Mapping[int, Written]
) -> None:
    """Raises RequestRefused if tasks that the batch does not have now have written rows of it before: these rows are in
    the topics twice.
    """
    others = [
        task
        for task, last in sorted(found.items())
        if task >= tasks_count and last.run_id == run_id and last.batch_id == batch_id
    ]
    if others:
        raise RequestRefused(
            f"batch {batch_id} was repeated with {tasks_count} tasks, and task {others[0]} had written rows of it "
            f"before: they may be in the topics twice. To go on all the same, delete the consumer group "
            f"'{task_id(transactional_id, others[0])}'"
        )
