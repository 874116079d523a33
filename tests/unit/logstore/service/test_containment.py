"""What an unexpected exception costs: one request, or one partition, and nothing else.

The parts of the core are replaced by ones that raise; `FaultyDisk` does the same where the cores are compiled.
"""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Callable

import pytest

from barnabas.channel.messages import Append
from barnabas.cluster.administration import EndOffsetsRequest
from barnabas.containment import REPORTS_MAX, Scope, Uncontained
from barnabas.ports.disk import DiskErrorKind
from barnabas.wire.errors import ErrorCode
from barnabas_logstore.core.data.uncommitted_results import UncommittedResults
from barnabas_logstore.core.maintenance.directories import Directories
from barnabas_logstore.core.maintenance.full_disks import PROBE_MS
from barnabas_logstore.core.replica.containment import (
    ADMINISTRATION,
    APPEND,
    APPEND_TO_LOG,
    BEGIN_WRITE,
    CONTROL,
    HOLD_RESULT,
    LOG_EFFECT,
    PLACES,
    QUERY,
    READ_BYTES,
)
from barnabas_logstore.core.replica.containment import READ as READ_PLACE
from barnabas_logstore.core.replica.partition import Partition
from barnabas_logstore.core.replica.replicas import Replicas
from barnabas_logstore.core.replica.topic_meters import TopicMeters
from barnabas_logstore.core.storage.checkpoints import parse_partition_metadata
from barnabas_logstore.core.storage.directories.log_directory import LogDirectory
from barnabas_logstore.core.storage.log.features.log_writes import LogWrites
from barnabas_logstore.core.storage.log.partition_log import PartitionLog
from barnabas_logstore.core.storage.log.state.producer_state import ProducerState
from barnabas_logstore.core.streams.outbox import Outputs
from barnabas_logstore.core.streams.streams import ExchangeStream
from tests.sim.disk_model import DiskModel, ModelFile
from tests.sim.disk_model import Fault as DiskFault
from tests.unit.logstore.service.support import (
    EXCHANGE,
    READ,
    TOPIC,
    TOPIC_ID,
    WATCH,
    Host,
    append_results,
    fetch,
    offsets,
    topic,
)

UNKNOWN, STORAGE = ErrorCode.UNKNOWN_SERVER_ERROR, ErrorCode.KAFKA_STORAGE_ERROR


class Fault(Exception):  # noqa: N818 - as what it stands for
    pass


class FaultyDisk(DiskModel):
    """Opening the log of one partition meets a fault of ours while `faulty` names it."""

    faulty = ""

    def open(self, path: str, *, create: bool = False) -> ModelFile:
        if self.faulty and f"/{self.faulty}/" in path and path.endswith(".log"):
            raise Fault(f"while {path} was opened")
        return super().open(path, create=create)

    def opened(self, path: str) -> ModelFile | None:
        if self.faulty and f"/{self.faulty}/" in path and path.endswith(".log"):
            raise Fault(f"while {path} was looked for")
        return super().opened(path)


def raises(*args: object, **options: object) -> object:
    raise Fault("planted")


def after(method: Callable[..., object]) -> Callable[..., object]:
    """Do the work, then raise."""

    def call(*args: object, **options: object) -> object:
        method(*args, **options)
        raise Fault("planted behind the work")

    return call


@pytest.fixture
def host() -> Host:
    host = Host(FaultyDisk())
    host.lead(topic(partitions=2))
    host.greet(EXCHANGE, READ, WATCH)
    return host


def contained(out: Outputs) -> list[str]:
    return [each.place.name for each in out.contained]


def is_all_credit_back(host: Host) -> bool:
    """Whether no request counts as received and not handled; what is handled twice would raise."""
    return all(share.outstanding == 0 for shares in host.core._credits._streams.values() for share in shares)


def test_an_append_that_fails_before_its_log_changed_costs_that_request(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as planted:
        planted.setattr(host.core._appends, "append", raises)
        host.send(host.append_request(), host.append_request(partition=1))
        out = host.turn()
    assert [each.error_code for each in append_results(out)] == [UNKNOWN, UNKNOWN]
    assert contained(out) == [APPEND.name, APPEND.name]
    assert out.contained[0].fields["topic_id"] == TOPIC_ID.hex()
    assert "planted" in out.contained[0].traceback
    assert out.contained[0].summary == "Fault: planted"
    assert host.append().base_offset == 0, "its log has nothing of it"


def test_an_append_that_may_be_in_its_log_takes_the_partition_offline(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as planted:
        planted.setattr(LogWrites, "add", raises)
        host.send(host.append_request())
        out = host.turn()
    assert [each.error_code for each in append_results(out)] == [STORAGE]
    assert contained(out) == [APPEND_TO_LOG.name]
    assert out.offline_partitions == [(f"{TOPIC}-0", "Fault: planted")]
    assert out.offline == [], "the directory goes on"
    assert host.append().error_code == STORAGE
    assert host.append(partition=1).error_code == ErrorCode.NONE


def test_a_partition_that_is_half_offline_ends_the_process(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    """It stayed: it neither served nor followed, and neither the controller nor `barnabas status` learned of it."""
    with monkeypatch.context() as planted:
        planted.setattr(LogWrites, "add", raises)
        planted.setattr(LogWrites, "abandon", raises)
        host.send(host.append_request())
        with pytest.raises(Uncontained):
            host.turn()


def test_what_waits_with_a_log_in_doubt_is_answered_once(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = host.append_request(), host.append_request()
    with monkeypatch.context() as planted:
        planted.setattr(host.core._appends, "append", after(host.core._appends.append))
        host.send(first, second)
        out = host.turn()
    results = append_results(out)
    assert sorted(each.request_id for each in results) == [first.request_id, second.request_id]
    assert {each.error_code for each in results} == {STORAGE}
    assert host.settle()[-1].exchanges == []


@pytest.mark.parametrize(
    ("owner", "method", "place"), [(PartitionLog, "begin_write", BEGIN_WRITE), (PartitionLog, "on_written", LOG_EFFECT)]
)
def test_a_write_that_fails_takes_the_partition_offline(
    host: Host, monkeypatch: pytest.MonkeyPatch, owner: type, method: str, place: object
) -> None:
    with monkeypatch.context() as planted:
        planted.setattr(owner, method, raises)
        host.send(host.append_request(), host.append_request())
        out = host.turn()
    assert [each.error_code for each in append_results(out)] == [STORAGE, STORAGE]
    assert out.contained[0].place is place
    assert [name for name, _ in out.offline_partitions] == [f"{TOPIC}-0"]
    assert host.append(partition=1).error_code == ErrorCode.NONE
    assert not host.core._replicas.by_name[TOPIC, 0].log.unreported, "nothing is in progress"


def test_a_result_that_can_not_be_held_leaves_uncommitted(monkeypatch: pytest.MonkeyPatch) -> None:
    host = Host(commit_hold_ms=10)
    host.lead(topic(replicas=(1, 2), in_sync_replicas=(1, 2)))
    host.greet(EXCHANGE)
    monkeypatch.setattr(UncommittedResults, "hold", raises)
    host.send(host.append_request())
    out = host.turn()
    (result,) = append_results(out)
    assert (result.error_code, result.committed) == (ErrorCode.NONE, False)
    assert contained(out) == [HOLD_RESULT.name]


def test_the_last_acknowledged_record_is_there_after_a_restart(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    for _ in range(3):
        assert host.append().error_code == ErrorCode.NONE
    with monkeypatch.context() as planted:
        planted.setattr(LogWrites, "add", after(LogWrites.add))
        assert host.append().error_code == STORAGE
    host.core.tick(6_000)
    host.settle()
    revived = Host(host.disk)
    revived.lead(topic(1, 1, partitions=2))
    revived.greet(EXCHANGE, READ)
    (result,) = revived.read(fetch()).partitions
    assert offsets(result.records) == [0, 1, 2]
    assert revived.append(leader_epoch=1).base_offset == 3


def test_the_controller_learns_of_it_as_of_a_failed_disk(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as planted:
        planted.setattr(LogWrites, "add", raises)
        host.append()
    response = host.lead(topic(partitions=2))
    assert [(each.partition, each.error_code) for each in response.partition_errors] == [(0, STORAGE)]


def test_a_partition_in_doubt_can_be_deleted_and_comes_back_empty(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    """A reassignment away and back brings it back without a restart."""
    with monkeypatch.context() as planted:
        planted.setattr(LogWrites, "add", raises)
        host.append()
    assert host.stop_replica().partition_errors == []
    assert host.lead(topic(2, 2, partitions=2)).partition_errors == []
    assert host.append(leader_epoch=2).base_offset == 0
    assert not host.core._replicas.contained.in_doubt


def test_a_deletion_that_fails_behind_the_removal_of_the_log_can_be_repeated(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each repetition met a log that is not in its directory, and the partition could be neither deleted nor created
    until the next start.
    """
    host.append()
    with monkeypatch.context() as planted:
        planted.setattr(Replicas, "remove", raises)
        assert [each.error_code for each in host.stop_replica().partition_errors] == [STORAGE]
    assert host.stop_replica().partition_errors == []
    assert host.core.contained.counts[CONTROL] == 1
    assert host.lead(topic(2, 2, partitions=2)).partition_errors == []
    assert host.append(leader_epoch=2).base_offset == 0


def test_a_stray_whose_removal_has_failed_makes_room_when_the_command_is_repeated(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    again = topic(topic_id=bytes(16))
    with monkeypatch.context() as planted:
        planted.setattr(Replicas, "remove", raises)
        assert [each.error_code for each in host.lead(again, full=True).partition_errors] == [STORAGE]
    assert host.lead(again).partition_errors == []


def test_a_read_costs_one_partition_of_one_request(host: Host) -> None:
    """On both builds: what opens the file of a segment raises."""
    disk = host.disk
    assert isinstance(disk, FaultyDisk)
    for partition in (0, 1):
        host.append(partition=partition)
    disk.faulty = f"{TOPIC}-0"
    result = host.read(fetch(), fetch(partition=1))
    assert [each.error_code for each in result.partitions] == [UNKNOWN, ErrorCode.NONE]
    disk.faulty = ""
    result = host.read(fetch(), fetch(partition=1))
    assert [each.error_code for each in result.partitions] == [ErrorCode.NONE, ErrorCode.NONE]
    assert host.core._replicas.contained.counts[READ_PLACE] == 1


@pytest.mark.parametrize("planting", [lambda method: raises, after], ids=["before", "behind"])
def test_a_read_is_answered_once_wherever_it_fails(
    host: Host, monkeypatch: pytest.MonkeyPatch, planting: Callable[..., Callable[..., object]]
) -> None:
    host.append()
    with monkeypatch.context() as planted:
        planted.setattr(host.core._reads, "plan", planting(host.core._reads.plan))
        request_id = host.read_request(fetch(), fetch(partition=1))
        host.settle()
    result = host.read_results.pop(request_id)
    assert [each.error_code for each in result.partitions] == [UNKNOWN, UNKNOWN]
    assert host.read_results == {}
    (stream,) = [each for each in host.core._data_inbox._streams.values() if each.stream_id == READ]
    assert not stream.unanswered  # type: ignore[union-attr]
    assert not host.core._reads._ranges


def test_bytes_that_can_not_be_taken_cost_that_partition_of_the_read(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    host.append()
    monkeypatch.setattr(PartitionLog, "finish_read", raises)
    result = host.read(fetch(), fetch(5, partition=1))
    assert [each.error_code for each in result.partitions] == [UNKNOWN, ErrorCode.OFFSET_OUT_OF_RANGE]
    assert host.core._replicas.contained.counts[READ_BYTES] == 1


@pytest.mark.parametrize("planting", [lambda method: raises, after], ids=["before", "behind"])
def test_queries_are_answered_once(
    host: Host, monkeypatch: pytest.MonkeyPatch, planting: Callable[..., Callable[..., object]]
) -> None:
    host.append()
    queries = host.core._queries
    with monkeypatch.context() as planted:
        planted.setattr(queries, "query_offset", planting(queries.query_offset))
        planted.setattr(queries, "query_state", planting(queries.query_state))
        request_id = host.offset_request(0)
        out = host.settle()
        (answer,) = [each for turn in out for _, response in turn.exchanges for each in response.offset_answers]
        assert (answer.request_id, answer.error_code) == (request_id, UNKNOWN)
        state = host.query_state()
    assert state.error_code == (UNKNOWN if planting is not after else ErrorCode.NONE), "it was answered before"
    assert host.core._replicas.contained.counts[QUERY] == 2
    assert host.query_offset(0).offset == 0
    assert not host.core._queries._pending


def test_a_lookup_that_meets_a_fault_costs_that_query(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    host.append()
    with monkeypatch.context() as planted:
        planted.setattr(host.core._queries, "_go_on", raises)
        host.offset_request(0)
        out = host.settle()
    (answer,) = [each for turn in out for _, response in turn.exchanges for each in response.offset_answers]
    assert answer.error_code == UNKNOWN


def test_a_poisonous_request_costs_itself_each_time_and_nothing_grows(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    """3,000 times: each is answered, its credit comes back, few of a turn are described, and memory stays flat."""
    whole = host.core._appends.append

    def append(stream: ExchangeStream, request: Append, wall_ms: int) -> None:
        if request.partition == 0:
            raise Fault("x" * 1_000_000)
        whole(stream, request, wall_ms)

    monkeypatch.setattr(host.core._appends, "append", append)
    sizes = []
    for rounds in range(60):
        host.send(*[host.append_request() for _ in range(50)], host.append_request(partition=1))
        out = host.turn()
        errors = [each.error_code for each in append_results(out)]
        assert errors.count(UNKNOWN) == 50
        assert errors.count(ErrorCode.NONE) == 1, "others are served"
        assert len(out.contained) == REPORTS_MAX
        assert all(len(each.traceback) < 10_000 and len(each.summary) < 400 for each in out.contained)
        if rounds == 10:
            gc.collect()
            tracemalloc.start()
        if rounds in (20, 59):
            del out, errors
            gc.collect()
            sizes.append(tracemalloc.get_traced_memory()[0])
    tracemalloc.stop()
    assert host.core._replicas.contained.counts[APPEND] == 3_000
    assert sizes[1] < sizes[0] + 50_000, "few bytes for each of them"
    assert is_all_credit_back(host)


def test_places_have_names_of_their_own() -> None:
    names = [place.name for place in PLACES]
    assert len(set(names)) == len(names)
    assert all(place.service == "logstore" and place.what and place.scope is not Scope.PROCESS for place in PLACES)


def offline(host: Host) -> list[tuple[str, int]]:
    return [name for name, each in host.core._replicas.by_name.items() if not each.online]


@pytest.mark.parametrize(
    ("part", "method"),
    [("_retention", "continue_retiring"), ("_producer_expiry", "tick"), ("_housekeeping", "_flush")],
)
def test_other_partitions_go_on_when_the_upkeep_of_one_fails(
    host: Host, monkeypatch: pytest.MonkeyPatch, part: str, method: str
) -> None:
    """What belongs to one log costs that log; what belongs to all ends the turn, and the process."""
    host.append()
    host.append(partition=1)
    with monkeypatch.context() as planted:
        match part:
            case "_housekeeping":
                planted.setattr(PartitionLog, "begin_due_flush", raises_for(host, 0, PartitionLog.begin_due_flush))
            case "_retention":
                planted.setattr(PartitionLog, "apply_retention", raises_for(host, 0, PartitionLog.apply_retention))
            case _:
                planted.setattr(ProducerState, "remove_expired", raises)
        for now_ms in (100, 40_000, 40_100, 40_200):
            host.now_ms = now_ms
            host.core.tick(now_ms)
            host.turn()
    assert offline(host) == ([(TOPIC, 0)] if part != "_producer_expiry" else [(TOPIC, 0), (TOPIC, 1)])


def raises_for(host: Host, partition: int, method: Callable[..., object]) -> Callable[..., object]:
    def call(log: PartitionLog, *args: object, **options: object) -> object:
        if log.topic_partition == (TOPIC, partition):
            raise Fault("planted")
        return method(log, *args, **options)

    return call


def test_a_command_costs_the_partition_at_which_it_fails(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as planted:
        apply = Partition.apply

        def failing(partition: Partition, *args: object) -> object:
            if partition.partition == 0:
                raise Fault("planted")
            return apply(partition, *args)  # type: ignore[arg-type]

        planted.setattr(Partition, "apply", failing)
        response = host.lead(topic(1, 1, partitions=2))
    assert [(each.partition, each.error_code) for each in response.partition_errors] == [(0, STORAGE)]
    assert offline(host) == [(TOPIC, 0)]
    assert host.append(partition=1, leader_epoch=1).error_code == ErrorCode.NONE
    assert host.core.contained.counts[CONTROL] == 1


def test_a_partition_that_can_not_be_created_is_without_a_disk(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    other = topic(name="other", topic_id=bytes(16))
    with monkeypatch.context() as planted:
        planted.setattr(host.core._directories, "create_log", raises)
        response = host.lead(other)
    assert [(each.partition, each.error_code) for each in response.partition_errors] == [(0, STORAGE)]
    assert host.lead(other).partition_errors == [], "the controller repeats it"


def test_a_replica_without_a_meter_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """Seed 27 of runs with exceptions: its deletion was a second exception, and left its topic half deleted."""
    host = Host()
    with monkeypatch.context() as planted:
        planted.setattr(TopicMeters, "of", raises)
        response = host.lead(topic())
    assert [(each.partition, each.error_code) for each in response.partition_errors] == [(0, STORAGE)]
    assert host.core.partitions == []
    assert host.stop_replica().partition_errors == []
    assert host.core.contained.counts[CONTROL] == 1


@pytest.mark.parametrize(
    ("owner", "method"), [(Directories, "create_log"), (LogDirectory, "create"), (Replicas, "add")]
)
def test_a_log_that_a_failed_creation_has_left_is_taken_when_the_command_is_repeated(
    host: Host, monkeypatch: pytest.MonkeyPatch, owner: type, method: str
) -> None:
    """Each repetition met a log without a partition, and the partition could not be created until the next start."""
    first, second = (topic(name="other", topic_id=bytes([each] * 16)) for each in (7, 8))
    with monkeypatch.context() as planted:
        planted.setattr(owner, method, raises if owner is Replicas else after(getattr(owner, method)))
        response = host.lead(first)
    assert [(each.partition, each.error_code) for each in response.partition_errors] == [(0, STORAGE)]
    assert host.lead(second).partition_errors == [], "another topic of that name, since the first one was deleted"
    assert host.core.contained.counts[CONTROL] == 1
    content = host.disk.read_file("/data0/other-0/partition.metadata")
    assert parse_partition_metadata(content) == second.topic_id, "a start finds the partition of the second topic"


def test_a_log_that_was_left_and_finds_no_room_for_its_topic_id_costs_no_other(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The directory was out of use from then on, and did not even get its last checkpoints."""
    other, added = topic(name="other", topic_id=bytes([7] * 16)), topic(name="added", topic_id=bytes([8] * 16))
    with monkeypatch.context() as planted:
        planted.setattr(LogDirectory, "create", after(LogDirectory.create))
        host.lead(other)
    host.disk.faults.append(DiskFault("write_at", "/other-0/partition.metadata", DiskErrorKind.NO_SPACE))
    (refused,) = host.lead(other).partition_errors
    assert refused.error_code == STORAGE
    for now_ms in (0, PROBE_MS):
        host.core.tick(now_ms)
        host.settle()
    assert host.lead(added, other).partition_errors == []
    assert host.append().error_code == ErrorCode.NONE


def test_a_call_of_the_administration_is_answered_as_failed(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    administration = host.core._administration
    request = EndOffsetsRequest([])
    monkeypatch.setitem(administration._answers, EndOffsetsRequest, raises)
    for call_id in range(100):
        assert host.core.on_administration(call_id, request)
        out = host.turn()
        assert out.administration_failures == [call_id]
        assert out.administration == []
    assert administration._calls == {}
    assert host.core.contained.counts[ADMINISTRATION] == 100
