from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from barnabas_pipeline.core.cluster import TopicExtent, topic_id_bytes, topic_id_text
from barnabas_pipeline.core.comparison import advanced, clipped, compare, latest_positions, readable_backlog
from barnabas_pipeline.core.losses import Loss, LossReason
from barnabas_pipeline.core.positions import TopicPartition, TopicPositions
from barnabas_pipeline.core.ranges import ranges_between


def extent(topic_id: str = "id", **offsets: tuple[int, int]) -> TopicExtent:
    """`p0=(earliest, latest)` and so on."""
    by_index = {int(name[1:]): pair for name, pair in offsets.items()}
    return TopicExtent(
        topic_id,
        {index: low for index, (low, _) in by_index.items()},
        {index: high for index, (_, high) in by_index.items()},
    )


def step(was: dict[str, TopicPositions], extents: dict[str, TopicExtent]) -> dict[str, TopicPositions]:
    """A batch without limits."""
    comparison = compare(was, extents)
    return advanced(comparison, readable_backlog(comparison, extents))


def test_what_has_grown_is_read_up_to_its_end() -> None:
    was = {"t": TopicPositions("id", {0: 5, 1: 3})}
    comparison = compare(was, {"t": extent(p0=(0, 9), p1=(0, 3))})
    assert (comparison.losses, comparison.moved_back, comparison.new) == ([], [], [])
    assert step(was, {"t": extent(p0=(0, 9), p1=(0, 3))}) == {"t": TopicPositions("id", {0: 9, 1: 3})}


def test_new_partitions_and_topics_get_a_place_first_and_are_read_then() -> None:
    was = {"t": TopicPositions("id", {0: 5})}
    extents = {"t": extent(p0=(0, 5), p1=(2, 8)), "u": extent("other", p0=(4, 6))}
    placed = step(was, extents)
    assert placed == {"t": TopicPositions("id", {0: 5, 1: 2}), "u": TopicPositions("other", {0: 4})}
    assert ranges_between(was, placed) == []
    assert step(placed, extents) == {"t": TopicPositions("id", {0: 5, 1: 8}), "u": TopicPositions("other", {0: 6})}


def test_what_retention_took_is_one_loss_and_jumped_over_alone() -> None:
    was = {"t": TopicPositions("id", {0: 5})}
    extents = {"t": extent(p0=(100, 200))}
    assert compare(was, extents).losses == [Loss("t", "id", 0, 5, 100, LossReason.RETENTION)]
    assert step(was, extents) == {"t": TopicPositions("id", {0: 100})}
    assert step(step(was, extents), extents) == {"t": TopicPositions("id", {0: 200})}


def test_a_recreated_topic_starts_over_and_is_a_loss() -> None:
    was = {"t": TopicPositions("id", {0: 5, 1: 6})}
    extents = {"t": extent("new", p0=(0, 50))}
    comparison = compare(was, extents)
    assert [(loss.partition, loss.start, loss.reason) for loss in comparison.losses] == [
        (0, 5, LossReason.RECREATED),
        (1, 6, LossReason.RECREATED),
    ]
    assert "recreated (its id was id)" in str(comparison.losses[0])
    assert step(was, extents) == {"t": TopicPositions("new", {0: 0})}


def test_a_topic_without_an_id_is_taken_for_the_same() -> None:
    assert compare({"t": TopicPositions("", {0: 5})}, {"t": extent("id", p0=(0, 5))}).losses == []


def test_a_topic_that_is_gone_keeps_its_place() -> None:
    was = {"t": TopicPositions("id", {0: 5})}
    assert [loss.reason for loss in compare(was, {}).losses] == [LossReason.DELETED]
    assert step(was, {}) == was


def test_a_high_watermark_that_moved_back_is_waited_for() -> None:
    was = {"t": TopicPositions("id", {0: 5})}
    comparison = compare(was, {"t": extent(p0=(0, 3))})
    assert (comparison.moved_back, comparison.losses) == ([TopicPartition("t", 0)], [])
    assert step(was, {"t": extent(p0=(0, 3))}) == was


def test_available_now_ends_where_the_log_ended_when_it_began() -> None:
    target = latest_positions({"t": extent(p0=(0, 5))})
    later = {"t": extent(p0=(0, 9), p1=(0, 4)), "u": extent("u", p0=(0, 2))}
    seen = clipped(later, target)
    place = step(step({"t": TopicPositions("id", {0: 2})}, seen), seen)
    assert place == {"t": TopicPositions("id", {0: 5, 1: 0}), "u": TopicPositions("u", {0: 0})}
    assert step(place, seen) == place


offsets = st.tuples(st.integers(0, 50), st.integers(0, 50)).map(lambda pair: (min(pair), max(pair)))
topics = st.dictionaries(
    st.sampled_from("tu"),
    st.builds(lambda topic_id, p0, p1: extent(topic_id, p0=p0, p1=p1), st.sampled_from(["x", "y"]), offsets, offsets),
)
standing = st.dictionaries(
    st.sampled_from("tu"),
    st.builds(
        TopicPositions, st.sampled_from(["x", "y"]), st.dictionaries(st.integers(0, 1), st.integers(0, 50), min_size=1)
    ),
)


@given(standing, topics)
def test_batches_come_to_rest_at_the_end_and_read_what_is_there_once(
    was: dict[str, TopicPositions], extents: dict[str, TopicExtent]
) -> None:
    place, read = was, []
    for _ in range(3):
        after = step(place, extents)
        read += [
            (each.topic, each.topic_id, each.partition, offset)
            for each in ranges_between(place, after)
            for offset in range(each.start, each.end)
        ]
        place = after
    assert step(place, extents) == place
    assert len(read) == len(set(read))
    for topic, here in extents.items():
        before = was.get(topic)
        for partition, earliest in here.earliest.items():
            is_same = before is not None and before.topic_id == here.topic_id and partition in before.offsets
            start = before.offsets[partition] if before is not None and is_same else 0
            there = {
                (topic, here.topic_id, partition, offset)
                for offset in range(max(start, earliest), here.latest[partition])
            }
            assert there <= set(read)


@given(st.binary(min_size=16, max_size=16))
def test_topic_ids_are_text_as_kafkas_tools_print_it(topic_id: bytes) -> None:
    assert topic_id_bytes(topic_id_text(topic_id)) == topic_id
    assert len(topic_id_text(topic_id)) in (0, 22)
