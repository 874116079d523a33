"""Events for operators: every change once, typed, in order, and no more of them than are kept."""

from __future__ import annotations

import pytest

from barnabas.cluster.keys import Role
from barnabas.cluster.messages import AlterReassignmentsRequest, NewTopic, Reassignment
from barnabas.cluster.operation_records import TERMS_MAX, ControllerHistoryRecord, ControllerTermRecord
from barnabas_controller.core.state.changes import Changes, Transition
from barnabas_controller.core.state.events import (
    VALUE_LENGTH_MAX,
    BalanceEvent,
    ConfigEvent,
    ControllerEvent,
    DrainEvent,
    Event,
    EventLog,
    IsrEvent,
    LeaderEvent,
    NodeChange,
    NodeEvent,
    ReassignmentEvent,
    TopicChange,
    TopicEvent,
)
from barnabas_controller.core.state.operator_requests import PauseBalance
from tests.unit.controller.cluster import (
    LEASE_MS,
    WALL_MS,
    Cluster,
    ControllerNode,
    alter,
    create,
    delete,
    grow,
    to_set,
)
from tests.unit.controller.test_drains import TIMEOUT_MS, ask, drain, give_back, in_sync, leaders, with_logstores


def since(controller: ControllerNode, position: int) -> list[Event]:
    return controller.core.events.read(position, 1_000)


def bodies(controller: ControllerNode, position: int) -> list[object]:
    return [event.body for event in since(controller, position)]


def with_topic() -> tuple[Cluster, ControllerNode, int]:
    """A cluster of three with one partition, and the number of the next event."""
    cluster, controller = with_logstores(3)
    controller.request(create(NewTopic("events", 1, 3)))
    cluster.settle()
    return cluster, controller, controller.core.events.end


def test_a_topic_comes_changes_and_goes() -> None:
    cluster, controller = with_logstores(1)
    position = controller.core.events.end
    controller.request(create(NewTopic("events", 1, 1, configs={"flush.ms": "5"})))
    cluster.settle()
    topic_id = controller.core.image.topics["events"].topic_id
    controller.request(alter("events", to_set("retention.ms", "7")))
    cluster.settle()
    controller.request(grow(("events", 3)))
    cluster.settle()
    controller.request(delete("events"))
    cluster.settle()
    assert bodies(controller, position) == [
        TopicEvent(TopicChange.CREATED, "events", topic_id, 1),
        ConfigEvent("events", 0, {"retention.ms": "7"}, []),
        TopicEvent(TopicChange.GROWN, "events", topic_id, 3),
        TopicEvent(TopicChange.DELETED, "events", topic_id, 3),
    ]
    revisions = [event.revision for event in since(controller, position)]
    assert revisions == sorted(set(revisions))


def test_a_death_and_a_return_are_reported_with_what_they_change() -> None:
    cluster, controller, position = with_topic()
    before = leaders(controller)[0]
    epoch = cluster.logstores[before].broker_epoch
    cluster.stop(before)
    cluster.settle()
    after = leaders(controller)[0]
    found = bodies(controller, position)
    assert found[0] == NodeEvent(NodeChange.DOWN, Role.LOGSTORE, str(before), epoch)
    assert LeaderEvent("events", 0, before, after, 1) in found
    shrunk = [each for each in found if isinstance(each, IsrEvent)]
    assert [(each.shrunk, before in each.in_sync_replicas) for each in shrunk] == [(True, False)]
    position = controller.core.events.end
    cluster.logstore(before)
    cluster.settle()
    in_sync(cluster, controller, "events", 1, 2, 3)
    found = bodies(controller, position)
    assert found[0] == NodeEvent(NodeChange.UP, Role.LOGSTORE, str(before), cluster.logstores[before].broker_epoch)
    assert [each.shrunk for each in found if isinstance(each, IsrEvent)] == [False]


def test_another_disk_of_the_same_life_is_no_event() -> None:
    cluster, controller, position = with_topic()
    cluster.fail_directory(1)
    cluster.settle()
    assert [each for each in bodies(controller, position) if isinstance(each, NodeEvent)] == []


def test_moves_drains_and_the_balance() -> None:
    cluster, controller = with_logstores(2)
    controller.request(create(NewTopic("events", 1, 1)))
    cluster.settle()
    (home,) = leaders(controller)
    away = 3 - home
    position = controller.core.events.end
    controller.request(AlterReassignmentsRequest([Reassignment("events", 0, [away])], TIMEOUT_MS))
    cluster.settle()
    in_sync(cluster, controller, "events", 1, 2)
    moves = [each for each in bodies(controller, position) if isinstance(each, ReassignmentEvent)]
    assert moves == [
        ReassignmentEvent("events", 0, False, (away, home), (away,), (home,)),
        ReassignmentEvent("events", 0, True, (away,), (away,), (home,)),
    ]
    position = controller.core.events.end
    ask(cluster, controller, drain(home))
    ask(cluster, controller, give_back(home))
    ask(cluster, controller, PauseBalance(True, TIMEOUT_MS))
    ask(cluster, controller, PauseBalance(False, TIMEOUT_MS))
    assert bodies(controller, position) == [
        DrainEvent(home, False, ended=False),
        DrainEvent(home, False, ended=True),
        BalanceEvent(True),
        BalanceEvent(False),
    ]


def test_another_controller_is_an_event_and_goes_on_with_the_same_ones() -> None:
    cluster, controller, position = with_topic()
    successor = cluster.controller("controller-1")
    cluster.settle()
    controller.request(create(NewTopic("more", 1, 1)))
    cluster.settle()
    reported = since(controller, position)[-1]
    controller.cut_off = True
    cluster.advance(LEASE_MS + 1000)
    assert successor.is_active()
    after = successor.core.events.position_after(reported.revision - 1)
    assert after is not None
    found = successor.core.events.read(after, 100)
    assert found[0].body == reported.body, "the standby controller knows of it too"
    changes = [event.body for event in found if isinstance(event.body, ControllerEvent)]
    assert changes == [ControllerEvent("", 1), ControllerEvent("controller-1", 2)]


def test_who_was_the_controller_when_is_known_to_the_next() -> None:
    cluster = Cluster()
    first = cluster.controller()
    cluster.settle()
    second = cluster.controller("controller-1")
    cluster.settle()
    first.cut_off = True
    cluster.advance(LEASE_MS + 1000)
    terms = second.core.image.controller_history.terms
    assert [(term.controller_epoch, term.controller_id) for term in terms] == [(1, "controller-0"), (2, "controller-1")]
    assert WALL_MS == terms[0].since_ms < terms[1].since_ms


def test_a_long_history_forgets_its_beginning() -> None:
    history = ControllerHistoryRecord()
    for epoch in range(1, TERMS_MAX + 11):
        history = history.followed_by(ControllerTermRecord(epoch, "controller-0", "host:9090", 0))
    assert [term.controller_epoch for term in history.terms] == list(range(11, TERMS_MAX + 11))


def test_what_is_not_kept_is_not_promised() -> None:
    _, controller = with_logstores(1)
    log = EventLog(controller.core.image, events_max=3)
    log.restart()
    begin = log.revision_before
    image = controller.core.image
    for number in range(1, 6):
        record = ControllerHistoryRecord((ControllerTermRecord(number, "controller-0", "", 0),))
        log.record(Changes(transitions=[Transition(begin + number, None, record)]), WALL_MS)
    assert (log.first, log.end) == (2, 5)
    assert log.position_after(begin + 1) is None, "of what came after it, one is gone"
    assert log.position_after(begin + 2) == 2
    assert log.position_after(begin + 4) == 4
    assert log.position_after(image.revision + 1_000) == 5
    assert [event.revision for event in log.read(3, 10)] == [begin + 4, begin + 5]
    with pytest.raises(AssertionError):
        log.read(1, 10)
    log.restart()
    assert (log.first, log.end, log.reloads) == (5, 5, 2)


def test_what_a_watcher_is_said_to_know_ends_before_a_revision_that_is_sent_in_part() -> None:
    """A watcher that comes back with that revision gets the rest of it."""
    cluster, controller = with_logstores(3)
    for topic in ("first", "second"):
        controller.request(create(NewTopic(topic, 8, 3)))
        cluster.settle()
    events = controller.core.events
    begin = events.end
    ask(cluster, controller, drain(1))
    revisions = [event.revision for event in since(controller, begin)]
    torn = next(number for number in range(1, len(revisions)) if revisions[number - 1] == revisions[number])
    reported = events.noted_before(begin + torn)
    assert reported == revisions[torn] - 1
    position = events.position_after(reported)
    assert position is not None
    assert position < begin + torn
    assert events.noted_before(events.end) == controller.core.image.revision


def test_of_a_config_no_more_is_kept_than_people_read() -> None:
    cluster, controller, position = with_topic()
    value = ",".join(f"0:{node_id}" for node_id in range(10_000))
    controller.request(alter("events", to_set("leader.replication.throttled.replicas", value)))
    cluster.settle()
    (event,) = [body for body in bodies(controller, position) if isinstance(body, ConfigEvent)]
    (reported,) = event.set_configs.values()
    assert len(reported) == VALUE_LENGTH_MAX
    assert reported.endswith("…")
