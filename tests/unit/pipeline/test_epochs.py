"""What a task that may be repeated makes of the last batch that it wrote to topics."""

from __future__ import annotations

import pytest

from barnabas_pipeline.core.epochs import (
    Epoch,
    Written,
    check_count,
    check_tasks,
    is_written,
    metadata_of,
    parse_written,
    task_of,
)
from barnabas_pipeline.core.errors import RequestRefused

EPOCH = Epoch("job", "query", 7, 2, True)


def test_what_is_committed_says_which_batch_it_was() -> None:
    assert parse_written("job-2", 7, metadata_of(EPOCH, 5)) == Written(7, "query", 5)
    assert parse_written("job-2", -1001, None) is None


@pytest.mark.parametrize(
    "metadata", [None, "", "{}", "[]", '{"run": 1, "records": 2}', '{"run": "a", "records": 1, "x": 1}']
)
def test_offsets_of_another_program_are_refused(metadata: str | None) -> None:
    with pytest.raises(RequestRefused, match="'job-2' has offsets of another program"):
        parse_written("job-2", 7, metadata)


@pytest.mark.parametrize(
    ("last", "answer"), [(None, False), (Written(6, "query", 1), False), (Written(7, "query", 1), True)]
)
def test_a_batch_is_written_once(last: Written | None, answer: bool) -> None:
    assert is_written(EPOCH, last) is answer


def test_an_old_checkpoint_is_refused() -> None:
    with pytest.raises(RequestRefused, match="batch 8 of this query is written, and batch 7 is to be"):
        is_written(EPOCH, Written(8, "query", 1))


def test_the_id_of_another_query_is_refused() -> None:
    with pytest.raises(RequestRefused, match="'job' was used by another query"):
        is_written(EPOCH, Written(7, "another", 1))


def test_each_job_writes_again() -> None:
    job = Epoch("job", "run-2", 0, 2, False)
    assert not is_written(job, Written(0, "run-1", 5))
    assert is_written(job, Written(0, "run-2", 5))


def test_a_repeated_batch_has_as_many_rows() -> None:
    check_count(EPOCH, Written(7, "query", 5), 5)
    with pytest.raises(RequestRefused, match=r"batch 7, task 2: 5 rows were written, .* there were 6"):
        check_count(EPOCH, Written(7, "query", 5), 6)


def test_a_repeated_batch_has_the_same_tasks() -> None:
    found = {0: Written(7, "query", 1), 1: Written(6, "query", 1), 3: Written(7, "another", 1)}
    check_tasks("job", "query", 7, 1, found)
    with pytest.raises(
        RequestRefused, match=r"repeated with 2 tasks, and task 4 had written .* consumer group 'job-4'"
    ):
        check_tasks("job", "query", 7, 2, found | {4: Written(7, "query", 3)})


@pytest.mark.parametrize(
    ("group_id", "task"),
    [
        ("job-0", 0),
        ("job-12", 12),
        ("job", None),
        ("job-", None),
        ("job-x", None),
        ("other-1", None),
        ("job-1-2", None),
        ("job-²", None),
    ],
)
def test_whose_group_it_is(group_id: str, task: int | None) -> None:
    assert task_of("job", group_id) == task
