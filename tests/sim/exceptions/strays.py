"""Who goes astray, in tours that look for what no client or gateway does, or hardly ever.

A stray calls logstores as a gateway does, and says nothing of itself first. Or it does: its appends come to a logstore
that stops, and it asks what a member has waited for that is gone. An asker lists groups without a pause, has a
partition moved as often as it can be, sends records of next week, and has the transactions' state need more replicas
than there are. It lowers the version of transactions, too: so all clients make them by version 0, since one of
version 2 takes the fence of a time-out for wrong.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from barnabas.channel.messages import (
    Append,
    CoordinateRequest,
    ExchangeRequest,
    ExchangeResponse,
    GroupCall,
    GroupCollect,
    Hello,
    Read,
    ReadRequest,
    WatchedPartition,
    WatchRequest,
)
from barnabas.cluster.internal_topics import OFFSETS_TOPIC, TRANSACTION_STATE_TOPIC
from barnabas.wire.api_keys import ApiKey
from barnabas.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from barnabas.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from barnabas.wire.messages.list_groups import ListGroupsRequest
from barnabas.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from barnabas.wire.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from barnabas.wire.record_batch import Record, build_batch
from barnabas_logstore.core.coordinator.runtime.led_shard import LedShard
from barnabas_logstore.core.coordinator.runtime.shard import Effect
from tests.sim.exceptions.inquirer import Inquirer
from tests.sim.exceptions.questions import TOPIC, TRANSACTION, Question
from tests.sim.network import End
from tests.sim.process import WALL_START_MS, Process
from tests.sim.protocols import COORDINATE, EXCHANGE, READ, WATCH
from tests.sim.scheduler import MS, SECOND

if TYPE_CHECKING:
    from tests.sim.cluster import Cluster
    from tests.sim.nodes.logstore import LogstoreNode

PAUSE_US: Final = 20 * MS
TOO_MANY: Final = 4
REPLICAS: Final = ([1, 2], [2, 3], [3, 1])
ANSWERED_US: Final = 100 * MS
AGAIN_US: Final = 100
COLLECTS_SHARE: Final = 0.3
_WEEK_MS: Final = 7 * 86_400_000
_ABSENT: Final = b"absent".ljust(16, b"\0")
_APPEND: Final = Append(1, _ABSENT, 0, 0, 1, build_batch([Record(None, b"v", WALL_START_MS)]))
_UNGREETED: Final = (
    (EXCHANGE, ExchangeRequest(appends=[_APPEND])),
    (READ, ReadRequest(reads=[Read(1, 1, 0, [])])),
    (WATCH, WatchRequest(watches=[WatchedPartition(_ABSENT, 0)])),
    (COORDINATE, CoordinateRequest(calls=[GroupCall(1, 0, ApiKey.LIST_GROUPS, 0, "", "", b"")])),
)


class Stray(Process):
    """It has one call at a time. At a logstore that is to stop it appends again and again."""

    def __init__(self, cluster: Cluster) -> None:
        super().__init__("stray", cluster.scheduler, cluster.network)
        self._cluster = cluster

    def boot(self) -> None:
        self._call()

    def leave(self) -> None:
        self.kill()

    def _call(self) -> None:
        random, gateway = self.scheduler.random, self._cluster.gateways[0]
        stopping = [each for each in self._cluster.logstores if each.alive and each.is_stopping]
        logstore = random.choice(stopping or self._cluster.logstores)
        kind, request = random.choice(_UNGREETED)
        collect = self._collect_at(logstore)
        if collect is not None and gateway.alive:
            hello = Hello(gateway.running.image.cluster_id, self.name)
            kind, request = COORDINATE, CoordinateRequest(hello=hello, collects=[collect])
        elif stopping and gateway.alive:
            kind, request = EXCHANGE, ExchangeRequest(hello=Hello(gateway.running.image.cluster_id, self.name))
        caller = _Caller(self, logstore)
        end = caller.end = self.network.connect(kind, self, f"{logstore.name}:data", caller)
        end.send(request)
        self.after(ANSWERED_US, "hangs up", lambda: self._hang_up(end))

    def _collect_at(self, logstore: LogstoreNode) -> GroupCollect | None:
        """Return a call for what a member has waited for that is gone, if a group is coordinated there."""
        groups, elections = self._cluster.groups, self._cluster.promises.elections
        if not elections.ids_of(OFFSETS_TOPIC) or self.scheduler.random.random() >= COLLECTS_SHARE:
            return None
        for shape in groups.shapes:
            key = groups.offsets_key_of(shape.group_id)
            record = elections.current.get(key)
            if record is not None and record.leader == logstore.node_id:
                return GroupCollect(1, key[1], ApiKey.SYNC_GROUP, 5, record.leader_epoch, shape.group_id, "gone", 1)
        return None

    def _hang_up(self, end: End) -> None:
        end.close("it has heard enough")
        self.after(self.scheduler.below(2 * PAUSE_US) + 1, "calls again", self._call)


class _Caller:
    def __init__(self, stray: Stray, logstore: LogstoreNode) -> None:
        self._stray = stray
        self._logstore = logstore
        self.end: End | None = None

    def on_message(self, message: object) -> None:
        """It was welcomed, or answered."""
        if self._logstore.is_stopping and isinstance(message, ExchangeResponse):
            self._stray.after(AGAIN_US, "appends", self._append)

    def _append(self) -> None:
        if self.end is not None:
            self.end.send(ExchangeRequest(appends=[_APPEND]))

    def on_closed(self, reason: str) -> None:
        """It was refused, or the logstore is gone."""


class Asker(Inquirer):
    def __init__(self, cluster: Cluster) -> None:
        super().__init__("asker", cluster.client_environment, PAUSE_US // 2)
        self._questions = _QUESTIONS
        self._has_topic = True

    def leave(self) -> None:
        """Ask for nothing any more but that transactions can end."""
        self._questions = [_need_in_sync(1)]
        self._interval_us = SECOND


def _update_features(level: int) -> Question:
    updates = [FeatureUpdateKey(TRANSACTION, level, allow_downgrade=True, upgrade_type=2)]
    return Question(ApiKey.UPDATE_FEATURES, 1, UpdateFeaturesRequest(2_000, updates, False))


def _move(replicas: list[int]) -> Question:
    topics = [ReassignableTopic(TOPIC, [ReassignablePartition(0, replicas)])]
    return Question(ApiKey.ALTER_PARTITION_REASSIGNMENTS, 0, AlterPartitionReassignmentsRequest(2_000, topics))


def _need_in_sync(count: int) -> Question:
    """What the transactions' state needs to be written, until the next one; `TOO_MANY` are never in sync."""
    settings = [AlterableConfig("min.insync.replicas", 0, str(count))]
    resources = [AlterConfigsResource(2, TRANSACTION_STATE_TOPIC, settings)]
    return Question(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, IncrementalAlterConfigsRequest(resources))


_LATE = [PartitionProduceData(0, build_batch([Record(b"k", b"v", WALL_START_MS + _WEEK_MS)]))]
_QUESTIONS: Final = [
    *[Question(ApiKey.LIST_GROUPS, 4, ListGroupsRequest([], []))] * 24,
    *map(_move, REPLICAS),
    *[_update_features(level) for level in (0, 1)],
    *map(_need_in_sync, (TOO_MANY, 1, 1)),
    Question(ApiKey.PRODUCE, 9, ProduceRequest(None, -1, 2_000, [TopicProduceData(TOPIC, partition_data=_LATE)])),
]


def is_of_list(arguments: tuple[Any, ...]) -> bool:
    """Whether a call may throw. A led shard defers something all the time; here only a list of groups counts
    that waits for what is not committed.
    """
    if not isinstance(arguments[0], LedShard) or not isinstance(arguments[-1], Effect):
        return True
    return type(getattr(arguments[-1].committed, "__self__", None)).__name__ == "_Listing"


def go_astray(cluster: Cluster) -> list[Stray | Asker]:
    """To be called before clients start. Return who is to be started with them, and ended."""
    shape = cluster.shape.transactions
    for habits in (*shape.producers, *shape.loop_habits):
        habits.version = 0
    return [Stray(cluster), Asker(cluster)]
