"""The register of topics beside the records: when it is written, and what it says."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from barnabas.cluster.inspection import KnownTopic, Register
from barnabas.cluster.messages import Broker, BrokerConfigs, TopicMetadata, UpdateMetadata
from barnabas.ports.disk import DiskErrorKind
from barnabas_logstore.core.maintenance.checkpoints import TOPIC_REGISTER_INTERVAL_MS
from barnabas_logstore.core.storage.directories.directory_inspection import InspectedDirectory, inspect_directory
from tests.sim.disk_model import DiskModel, Fault
from tests.unit.logstore.service.support import CONTROLLER_EPOCH, TOPIC, TOPIC_ID, Host, topic

OTHER_ID = bytes(range(16, 32))


def tell(host: Host, revision: int, *topics: TopicMetadata, **fields: object) -> None:
    update = UpdateMetadata(
        revision,
        bool(fields.get("full", False)),
        "",
        CONTROLLER_EPOCH,
        [Broker(3, "a:1", 4)],
        [],
        list(topics),
        deleted_topic_ids=list(fields.get("deleted", [])),  # type: ignore[call-overload]
        broker_configs=list(fields.get("configs", [])),  # type: ignore[call-overload]
    )
    host.control(update)


def later(host: Host) -> None:
    host.now_ms += TOPIC_REGISTER_INTERVAL_MS
    host.core.tick(host.now_ms)
    host.settle()


def register(host: Host, directory: str = "/data0") -> Register | None:
    found = inspect_directory(host.disk, directory)
    assert isinstance(found, InspectedDirectory)
    return found.found.register


def test_all_topics_of_the_cluster_are_noted_with_their_configs() -> None:
    host = Host()
    host.lead()
    elsewhere = topic(name="elsewhere", topic_id=OTHER_ID, partitions=2, replicas=[9], leader=9, configs={"a": "b"})
    tell(host, 5, topic(), elsewhere, full=True, configs=[BrokerConfigs(-1, {"x": "y"})])
    later(host)
    assert register(host) == Register(
        CONTROLLER_EPOCH,
        5,
        [KnownTopic(TOPIC, TOPIC_ID.hex(), 1, {}), KnownTopic("elsewhere", OTHER_ID.hex(), 2, {"a": "b"})],
        {-1: {"x": "y"}},
        [1, 3, 9],
    )


CHANGES: dict[str, Callable[[Host], None]] = {
    "another config": lambda host: tell(host, 6, topic(configs={"retention.ms": "7"})),
    "another topic": lambda host: tell(host, 6, topic(name="new", topic_id=OTHER_ID)),
    "more partitions": lambda host: tell(host, 6, topic(partitions=2)),
    "a deletion": lambda host: tell(host, 6, deleted=[TOPIC_ID]),
    "a config of a broker": lambda host: tell(host, 6, configs=[BrokerConfigs(3, {"x": "z"})]),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_what_changes_is_noted(change: Callable[[Host], None]) -> None:
    host = Host()
    host.lead()
    tell(host, 5, topic(), full=True)
    later(host)
    before = register(host)
    change(host)
    later(host)
    after = register(host)
    assert before is not None
    assert after is not None
    assert after.revision == 6
    assert (after.topics, after.broker_configs) != (before.topics, before.broker_configs)


def test_another_leader_is_no_news() -> None:
    host = Host()
    host.lead()
    tell(host, 5, topic(), full=True)
    later(host)
    changed = topic(leader_epoch=9, leader=2)
    tell(host, 6, TopicMetadata(changed.topic, changed.topic_id, {}, changed.partitions, partial=True))
    later(host)
    found = register(host)
    assert found is not None
    assert found.revision == 5


def test_every_log_directory_has_it() -> None:
    host = Host(directories=2)
    tell(host, 5, topic(replicas=[9], leader=9), full=True)
    later(host)
    assert register(host, "/data0") is not None
    assert register(host, "/data0") == register(host, "/data1")


def test_a_clean_stop_notes_what_is_known_by_then() -> None:
    host = Host()
    host.lead()
    tell(host, 5, topic(), full=True)
    host.core.stopping.begin()
    host.settle()
    host.core.stopping.shut_down()
    found = register(host)
    assert found is not None
    assert [each.topic for each in found.topics] == [TOPIC]


def test_a_logstore_that_was_sent_nothing_leaves_the_register_as_it_is() -> None:
    host = Host()
    host.lead()
    tell(host, 5, topic(), full=True)
    later(host)
    before = register(host)
    again = Host(host.disk)
    again.core.stopping.begin()
    again.core.stopping.shut_down()
    assert before is not None
    assert register(again) == before


def test_without_room_it_is_written_when_there_is_some() -> None:
    disk = DiskModel()
    host = Host(disk)
    tell(host, 5, topic(replicas=[9], leader=9), full=True)
    disk.faults.append(Fault("replace_file", "topic-register", DiskErrorKind.NO_SPACE))
    later(host)
    assert register(host) is None
    disk.faults.clear()
    later(host)
    assert register(host) is not None
