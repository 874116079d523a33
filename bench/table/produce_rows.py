"""Rows of produce requests, and of single requests that wait for their answers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from barnabas.wire.api_keys import ApiKey
from barnabas.wire.codec import decode_response, encode_request
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.list_offsets import (
    LATEST_TIMESTAMP,
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from bench.loads import LOADS, REPLICATED_LOADS, Load
from bench.measure import LoadOnSide
from bench.one_at_a_time import (
    TOPIC,
    Connection,
    ask_repeatedly,
    check_produced,
    connect_to_leader,
    measure,
    produce_frame,
)
from bench.sides import Side
from bench.table.rows import KFAKE, Row, Sample
from bench.table.stage import Stage

LIST_OFFSETS_VERSION: Final = 5

_GOALS: Final = {
    "single": "≥ 3, and ≥ 1 × kfake",
    "batched-100": "≥ 1.2, CPU ≤ 0.9",
    "batched-1000": "≥ 1.2, CPU ≤ 0.9",
    "replicated-single": "≥ 10",
    "replicated-100": "≥ 1.2, CPU ≤ 0.9",
    "replicated-1000": "≥ 1.2, CPU ≤ 0.9",
}


def one_at_a_time(stage: Stage, sides: Mapping[str, Side], replicas: int) -> None:
    """A producer that waits for each answer, acks=all; on one replica also a ListOffsets of the same partition."""
    produce_goal = "≥ 0.8, p50 ≤ 0.25 ms by lanes, ≤ 0.6 ms by gRPC" if replicas == 1 else "≥ 0.8, p50 ≤ 0.8 ms"
    title = f"one at a time, 100 B, acks=all, RF {replicas}"
    connections: dict[str, Connection] = {}
    with stage.row(Row(f"one-at-a-time-{replicas}", title, produce_goal, "requests/s", "µs a request")) as row:
        connections |= {name: connect_to_leader(side.bootstrap, replicas) for name, side in sides.items()}
        _take_single(stage, row, connections, produce_frame(), check_produced)
    if replicas == 1:
        with stage.row(
            Row("list-offsets", "ListOffsets, one at a time", "p50 ≤ 200 µs", "requests/s", "µs a request")
        ) as row:
            _take_single(stage, row, connections, _list_offsets_frame(), _check_listed)
    for connection in connections.values():
        connection.close()


def _take_single(
    stage: Stage, row: Row, connections: Mapping[str, Connection], frame: bytes, check: Callable[[bytes], None]
) -> None:
    for connection in connections.values():
        ask_repeatedly(connection, frame, stage.scale.warm_up_seconds, check)

    def taker(name: str, connection: Connection) -> Callable[[], Sample]:
        def take() -> Sample:
            taken = measure(name, stage.sides[name], connection, frame, stage.scale.seconds, check)
            return Sample(
                taken.per_second, taken.cpu_us, taken.system_cpu_us, taken.p50_us, taken.p99_us, taken.switches
            )

        return take

    stage.take(row, {name: taker(name, connection) for name, connection in connections.items()})


def _list_offsets_frame() -> bytes:
    partition = ListOffsetsPartition(partition_index=0, current_leader_epoch=-1, timestamp=LATEST_TIMESTAMP)
    request = ListOffsetsRequest(replica_id=-1, isolation_level=0, topics=[ListOffsetsTopic(TOPIC, [partition])])
    return b"".join(encode_request(request, LIST_OFFSETS_VERSION, 1, "bench"))


def _check_listed(frame: bytes) -> None:
    _, response = decode_response(ApiKey.LIST_OFFSETS, LIST_OFFSETS_VERSION, memoryview(frame))
    assert isinstance(response, ListOffsetsResponse)
    answer = response.topics[0].partitions[0]
    assert answer.error_code == ErrorCode.NONE, answer
    assert answer.offset > 0, "the row before has produced"


def produce_loads(stage: Stage, names: Mapping[str, tuple[str, ...]]) -> None:
    """The loads of librdkafka: `names` of sides by the load's name."""
    for load in [*LOADS, *REPLICATED_LOADS]:
        if load.name in names:
            _produce_load(stage, load, stage.of(*names[load.name]))


def _produce_load(stage: Stage, load: Load, sides: Mapping[str, Side]) -> None:
    unit = "requests/s" if load.is_one_record_a_request else "MB/s"
    cpu_unit = "µs a request" if load.is_one_record_a_request else "ms a MB"
    # Every megabyte that kfake is sent stays in its memory until its topic is deleted.
    seconds = {name: min(stage.scale.seconds, 1.0) if name == KFAKE else stage.scale.seconds for name in sides}
    with stage.row(Row(load.name, load.title, _GOALS[load.name], unit, cpu_unit)) as row:
        loads = {
            name: LoadOnSide(side, load, seconds[name], stage.scale.touched_bytes, stage.scale.warm_ups)
            for name, side in sides.items()
        }
        for loaded in loads.values():
            loaded.warm_up()

        def taker(name: str, loaded: LoadOnSide) -> Callable[[], Sample]:
            def take() -> Sample:
                if name == KFAKE:
                    loaded.empty()
                return _sample(loaded, load)

            return take

        stage.take(row, {name: taker(name, loaded) for name, loaded in loads.items()})
        for loaded in loads.values():
            loaded.clean_up()


def _sample(loaded: LoadOnSide, load: Load) -> Sample:
    taken = loaded.measure()
    per = taken.cpu_us_per_record if load.is_one_record_a_request else taken.cpu_ms_per_megabyte
    value = taken.records_per_second if load.is_one_record_a_request else taken.megabytes_per_second
    return Sample(value, per, per * taken.system_cpu_seconds / max(taken.cpu_seconds, 1e-9))
