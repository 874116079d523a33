from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from barnabas_pipeline.core.admission import (
    Sample,
    admit_bytes,
    admit_records,
    bytes_between,
    offsets_within,
    probe_offsets,
)
from barnabas_pipeline.core.positions import TopicPartition

A, B, C = (TopicPartition("t", index) for index in range(3))
backlogs = st.dictionaries(st.sampled_from([A, B, C]), st.integers(1, 10_000))


def test_a_backlog_that_fits_is_admitted_whole() -> None:
    assert admit_records({A: 5, B: 7}, 12) == {A: 5, B: 7}
    assert admit_records({A: 5, B: 7}, None) == {A: 5, B: 7}


def test_partitions_share_in_proportion_so_that_they_end_together() -> None:
    assert admit_records({A: 9_000, B: 1_000}, 100) == {A: 90, B: 10}


def test_a_small_backlog_does_not_starve_beside_a_large_one() -> None:
    assert admit_records({A: 1_000_000, B: 1}, 10) == {A: 9, B: 1}
    # Also where the largest share would leave nothing for the last, or the limit is below the number of partitions.
    assert admit_records({A: 1_000_000, B: 2, C: 1}, 3) == {A: 1, B: 1, C: 1}
    assert admit_records({A: 5, B: 6, C: 4}, 1) == {A: 1, B: 1, C: 1}


@given(backlogs, st.integers(1, 20_000))
def test_the_limit_is_kept_and_used(backlog: dict[TopicPartition, int], records_max: int) -> None:
    admitted = admit_records(backlog, records_max)
    assert sum(admitted.values()) == min(max(records_max, len(backlog)), sum(backlog.values()))
    assert all(0 < admitted[each] <= backlog[each] for each in backlog)


def test_bytes_are_counted_from_sample_to_sample() -> None:
    samples = [Sample(100, 10.0), Sample(150, 10.0), Sample(160, 1_000.0), Sample(170, 5.0)]
    assert bytes_between(samples, 100, 155) == 50 * 10 + 5 * 1_000
    assert bytes_between(samples, 100, 180) == 50 * 10 + 20 * 1_000 + 10 * 5
    assert offsets_within(samples, 100, 80, 500) == 50
    assert offsets_within(samples, 100, 80, 2_500) == 52
    assert offsets_within(samples, 100, 80, 1e9) == 80


def test_a_limit_in_bytes_cuts_where_records_become_large() -> None:
    samples = {A: [Sample(0, 10.0), Sample(500, 10.0), Sample(750, 10_000.0)]}
    assert admit_bytes({A: 1_000}, {A: 0}, samples, 105_000) == {A: 510}


def test_one_record_that_is_larger_than_the_limit_is_admitted() -> None:
    assert admit_bytes({A: 5}, {A: 0}, {A: [Sample(0, 1e9)]}, 1_000) == {A: 1}


def test_small_records_do_not_starve_beside_one_that_is_larger_than_the_limit() -> None:
    samples = {A: [Sample(0, 5_000.0)], B: [Sample(0, 10.0)]}
    assert admit_bytes({A: 100_000, B: 100}, {A: 0, B: 0}, samples, 1_000) == {A: 1, B: 1}


@given(
    backlogs,
    st.integers(1, 50),
    st.dictionaries(st.sampled_from([A, B, C]), st.floats(0.1, 1e6)),
    st.integers(1, 100_000),
)
def test_no_partition_waits_for_another_whatever_the_limits(
    backlog: dict[TopicPartition, int],
    records_max: int,
    bytes_per_offset: dict[TopicPartition, float],
    bytes_max: int,
) -> None:
    """Every one gets on in every batch."""
    admitted = admit_records(backlog, records_max)
    samples = {each: [Sample(0, size)] for each, size in bytes_per_offset.items()}
    fitting = admit_bytes(admitted, dict.fromkeys(admitted, 0), samples, bytes_max)
    assert fitting.keys() == backlog.keys()
    assert all(0 < fitting[each] <= backlog[each] for each in backlog)


def test_without_samples_nothing_is_known_and_nothing_held_back() -> None:
    assert admit_bytes({A: 5}, {A: 0}, {}, 1) == {A: 5}
    assert admit_bytes({A: 5}, {A: 0}, {A: [Sample(0, 1e9)]}, None) == {A: 5}


@given(backlogs, st.integers(1, 10_000_000), st.lists(st.floats(0.1, 1e6), min_size=2, max_size=4))
def test_bytes_stay_within_the_limit_but_for_one_record_a_partition(
    admitted: dict[TopicPartition, int], bytes_max: int, sizes: list[float]
) -> None:
    samples = {
        each: [
            Sample(offset, size)
            for offset, size in zip(probe_offsets(7, admitted[each], len(sizes)), sizes, strict=False)
        ]
        for each in admitted
    }
    fitting = admit_bytes(admitted, dict.fromkeys(admitted, 7), samples, bytes_max)
    total = sum(bytes_between(samples[each], 7, 7 + count) for each, count in fitting.items())
    assert total <= bytes_max * 1.001 + len(fitting) * max(sizes)
    assert all(0 < fitting[each] <= count for each, count in admitted.items())


def test_probes_begin_at_the_start_and_are_never_outside() -> None:
    assert probe_offsets(100, 41, 5) == [100, 110, 120, 130, 140]
    assert probe_offsets(100, 2, 5) == [100, 101]
    assert probe_offsets(100, 1, 5) == [100]
