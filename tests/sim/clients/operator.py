"""An administrator who never rests: replicas are moved, leaders elected, records and topics deleted, settings changed,
logstores taken out of service and back.

One request at a time, over real bytes, through whatever gateway; drains are asked of the controller itself, as the
operators' API does, and the answer is not waited for. A request need not be repeated whatever its result, except for
the creation of a topic that was deleted: others use it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from barnabas.wire.api_keys import ApiKey
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages import Request, Response
from barnabas.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignableTopic,
)
from barnabas.wire.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
from barnabas.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
)
from barnabas.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse, DeleteTopicState
from barnabas.wire.messages.elect_leaders import ElectLeadersRequest, ElectLeadersResponse, TopicPartitions
from barnabas.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from barnabas_controller.core.state.operator_requests import (
    DrainNode,
    OperatorRequest,
    OperatorResponse,
    Outcome,
    PauseBalance,
    ReturnNode,
)
from tests.sim.clients.admin import TIMEOUT_MS, creatable
from tests.sim.clients.client import Client, ClientEnvironment
from tests.sim.elections import Elections
from tests.sim.nodes.controller import DEFAULT_REPLICATION_FACTOR, ControllerNode
from tests.sim.scheduler import MS, InvariantViolation
from tests.sim.topology import MIN_ISR, Shape

PREFERRED, UNCLEAN = 0, 1
SET = 0
TOPIC_RESOURCE = 2
HIGH_WATERMARK = -1

R = TypeVar("R", bound=Response)


class Operator(Client):
    """Administers topics, as the run's shape says. What may cost records, or whole topics, is done to expendable topics
    only; the offsets topic is only moved, and leaders elected for it. With `administration_us` 0 it only watches.
    """

    def __init__(
        self,
        name: str,
        environment: ClientEnvironment,
        shape: Shape,
        elections: Elections,
        controllers: list[ControllerNode],
    ) -> None:
        super().__init__(name, environment)
        self._topics = shape.topics | shape.offsets_topic
        self._only_moved = shape.offsets_topic
        self._expendable = shape.expendable
        self._node_ids = list(range(1, shape.logstores + 1))
        self._interval_us = shape.administration_us
        self._elections = elections
        self._controllers = controllers
        self._to_create: str | None = None
        self.is_stopping = False

    @property
    def has_nothing_to_create(self) -> bool:
        return self._to_create is None

    @property
    def is_idle(self) -> bool:
        return self._to_create is None and not self.unanswered

    def work(self) -> None:
        if self._to_create is not None:
            self._create()
        elif self._interval_us and not self.is_stopping:
            self.meanwhile(self.scheduler.random.randrange(2 * self._interval_us), "administers", self._administer)

    def _administer(self) -> None:
        if self.is_stopping:
            return
        random = self.scheduler.random
        topic = random.choice(sorted(self._topics))
        partition = random.randrange(self._topics[topic].partitions)
        tasks: list[Callable[[str, int], None]] = [
            self._move,
            self._move,
            self._cancel_move,
            self._elect_preferred,
            self._drain,
            self._return,
            self._return,
            self._pause_or_resume,
        ]
        if topic not in self._only_moved:
            tasks += [self._delete_records, self._change_settings]
        if topic in self._expendable:
            tasks += [self._elect_unclean, self._delete_topic]
        random.choice(tasks)(topic, partition)

    # --- requests ----------------------------------------------------------------------------------------------------

    def _request(
        self, what: str, api_key: ApiKey, request: Request, version: int, kind: type[R], codes: Callable[[R], list[int]]
    ) -> None:
        def answered(response: R | None) -> None:
            for code in codes(response) if response is not None else ():
                if code == ErrorCode.UNKNOWN_SERVER_ERROR and not self.history.may_fail_internally:
                    raise InvariantViolation(f"{what} fails with {ErrorCode(code).name}: {response}")
                if code == ErrorCode.NONE:
                    self.history.counts.administered[what] += 1
            self.work()

        self.scheduler.note(f"{self.name} asks: {what}")
        self.ask(api_key, request, version, kind, lambda response: answered(response) if self.is_connected else None)

    def _move(self, topic: str, partition: int) -> None:
        """To other replicas, as many as before; an expendable topic to any number of them."""
        random = self.scheduler.random
        count = self._topics[topic].replication_factor
        if topic in self._expendable and random.random() < 0.3:
            count = random.randint(1, len(self._node_ids))
        self._reassign("a partition is moved", topic, partition, random.sample(self._node_ids, count))

    def _cancel_move(self, topic: str, partition: int) -> None:
        self._reassign("a move is called off", topic, partition, None)

    def _reassign(self, what: str, topic: str, partition: int, replicas: list[int] | None) -> None:
        self._request(
            what,
            ApiKey.ALTER_PARTITION_REASSIGNMENTS,
            AlterPartitionReassignmentsRequest(
                TIMEOUT_MS, True, [ReassignableTopic(topic, [ReassignablePartition(partition, replicas)])]
            ),
            1,
            AlterPartitionReassignmentsResponse,
            lambda response: [each.error_code for one in response.responses for each in one.partitions],
        )

    def _elect_preferred(self, topic: str, partition: int) -> None:
        self._elect("a preferred leader is elected", PREFERRED, topic, partition)

    def _elect_unclean(self, topic: str, partition: int) -> None:
        self._elections.unclean_is_asked[topic] = None
        self._elect("a leader is elected unclean", UNCLEAN, topic, partition)

    def _elect(self, what: str, election_type: int, topic: str, partition: int) -> None:
        self._request(
            what,
            ApiKey.ELECT_LEADERS,
            ElectLeadersRequest(election_type, [TopicPartitions(topic, [partition])], TIMEOUT_MS),
            2,
            ElectLeadersResponse,
            lambda response: [
                each.error_code for one in response.replica_election_results for each in one.partition_result
            ],
        )

    # --- of the controller itself ------------------------------------------------------------------------------------

    def _drain(self, topic: str, partition: int) -> None:
        """With its replicas mostly where there is a place for them."""
        random = self.scheduler.random
        share = 0.7 if len(self._node_ids) > DEFAULT_REPLICATION_FACTOR else 0.2
        request = DrainNode(random.choice(self._node_ids), random.random() < share, TIMEOUT_MS)
        self._operate("a logstore is drained", request)
        self.work()

    def _return(self, topic: str, partition: int) -> None:
        """One that is drained; where none is, there is one to drain."""
        random = self.scheduler.random
        drained = self._elections.drains.node_ids
        if not drained:
            self._drain(topic, partition)
            return
        request = ReturnNode(random.choice(drained), random.random() < 0.5, TIMEOUT_MS)
        self._operate("a logstore is returned", request)
        self.work()

    def _make_room(self) -> None:
        """A topic has no place while a logstore is drained: return it, after some seconds in which others ask for the
        topic in vain.
        """
        random, drained = self.scheduler.random, self._elections.drains.node_ids
        if drained and random.random() < 0.1:
            self._operate("a logstore is returned", ReturnNode(random.choice(drained), True, TIMEOUT_MS))

    def _pause_or_resume(self, topic: str, partition: int) -> None:
        request = PauseBalance(self.scheduler.random.random() < 0.5, TIMEOUT_MS)
        self._operate("the balance is paused or resumed", request)
        self.work()

    def return_all(self) -> None:
        """Asked until it is so."""
        for node_id in self._node_ids:
            self._operate("a logstore is returned", ReturnNode(node_id, True, TIMEOUT_MS))
        self._operate("the balance is paused or resumed", PauseBalance(False, TIMEOUT_MS))

    def _operate(self, what: str, request: OperatorRequest) -> None:
        active = next((each for each in self._controllers if each.alive and not each.paused and each.is_active), None)
        if active is None:
            return

        def answered(response: OperatorResponse) -> None:
            if response.outcome is Outcome.DONE:
                self.history.counts.administered[what] += 1

        self.scheduler.note(f"{self.name} asks: {what}")
        active.operate(request, answered)

    def _delete_records(self, topic: str, partition: int) -> None:
        """Up to an offset that was read; now and then everything."""
        random = self.scheduler.random
        topic_ids = self._elections.ids_of(topic)
        read = sorted(self.history.of((topic_ids[-1], partition)).consumed) if topic_ids else []
        offset = HIGH_WATERMARK if not read or random.random() < 0.1 else read[len(read) // 4]
        self.history.shortened[topic, partition] = None
        self._request(
            "records are deleted",
            ApiKey.DELETE_RECORDS,
            DeleteRecordsRequest([DeleteRecordsTopic(topic, [DeleteRecordsPartition(partition, offset)])], TIMEOUT_MS),
            2,
            DeleteRecordsResponse,
            lambda response: [each.error_code for one in response.topics for each in one.partitions],
        )

    def _change_settings(self, topic: str, partition: int) -> None:
        random = self.scheduler.random
        change = ("segment.ms", random.choice(("300", "5000", "600000")))
        if topic in self._expendable and random.random() < 0.5:
            change = (MIN_ISR, random.choice(("1", "2")))
        self._request(
            "a setting is changed",
            ApiKey.INCREMENTAL_ALTER_CONFIGS,
            IncrementalAlterConfigsRequest(
                [AlterConfigsResource(TOPIC_RESOURCE, topic, [AlterableConfig(change[0], SET, change[1])])], False
            ),
            1,
            IncrementalAlterConfigsResponse,
            lambda response: [each.error_code for each in response.responses],
        )

    def _delete_topic(self, topic: str, partition: int) -> None:
        """And make another one of the same name, whatever has become of the deletion."""
        self._to_create = topic
        self._request(
            "a topic is deleted",
            ApiKey.DELETE_TOPICS,
            DeleteTopicsRequest([DeleteTopicState(topic, bytes(16))], [], TIMEOUT_MS),
            6,
            DeleteTopicsResponse,
            lambda response: [each.error_code for each in response.responses],
        )

    def _create(self) -> None:
        topic = self._to_create
        assert topic is not None

        def answered(response: CreateTopicsResponse | None) -> None:
            if response is None:
                return
            if response.topics[0].error_code in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
                self._to_create = None
                self.history.counts.administered["a topic is made again"] += 1
            elif response.topics[0].error_code == ErrorCode.INVALID_REPLICATION_FACTOR:
                self._make_room()
            self.meanwhile(300 * MS, "goes on", self.work)

        request = CreateTopicsRequest([creatable(topic, self._topics[topic])], TIMEOUT_MS)
        self.ask(ApiKey.CREATE_TOPICS, request, 7, CreateTopicsResponse, answered)
