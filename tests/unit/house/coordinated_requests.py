"""A cluster whose logstore coordinates a group and a transactional id, and the commits of both."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from barnabas.channel.messages import CoordinateRequest, Hello
from barnabas.cluster.features import TRANSACTION_VERSION, finalized_features
from barnabas.cluster.internal_topics import OFFSETS_TOPIC, TRANSACTION_STATE_TOPIC
from barnabas.cluster.messages import TopicMetadata
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.end_txn import EndTxnRequest
from barnabas.wire.messages.init_producer_id import InitProducerIdRequest
from barnabas.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from barnabas.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from barnabas.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from barnabas.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from barnabas.wire.record_batch import Record, build_batch
from barnabas_logstore.core.coordinator.groups.config import GroupConfig
from barnabas_logstore.core.replica.partition import Partition
from tests.unit.house.request_path import COORDINATE, PRODUCE_VERSION, Cluster
from tests.unit.logstore.service.support import CLUSTER_ID, TOPIC, WALL_MS, Host, topic

GROUP = "shoppers"
TRANSACTIONAL_ID = "shop"
PRODUCER_IDS = (1000, 1000)
"""The first id of the block that the controller has reserved, and how many there are."""
JOIN_VERSION, SYNC_VERSION, COMMIT_VERSION, INIT_VERSION, END_VERSION = 7, 5, 9, 5, 5


class CoordinatingCluster(Cluster):
    """With one member in a group, and one producer of transactions of version 2."""

    def __init__(self) -> None:
        super().__init__(logstore=Host(groups=GroupConfig(initial_rebalance_delay_ms=0)))
        features = finalized_features(1, {TRANSACTION_VERSION: 2})
        metadata = replace(self.metadata, revision=2, finalized_features=features)
        self.processor.metadata_updated(metadata, self.now_ms)
        self.logstore.control(metadata)
        self.logstore.core.on_coordinate(COORDINATE, CoordinateRequest(Hello(CLUSTER_ID, "gateway-0/0")))
        self.logstore.core.transactions.on_producer_ids(*PRODUCER_IDS)
        self.processor.coordinate_up(1, self.now_ms)
        self.run()
        self._offset = 0
        self._join()
        self._producer_id = -1
        self._producer_epoch = -1
        self._begin_to_produce()

    def topics(self) -> list[TopicMetadata]:
        offsets = topic(name=OFFSETS_TOPIC, topic_id=b"offsets of group")
        return [topic(), offsets, topic(name=TRANSACTION_STATE_TOPIC, topic_id=b"states of transa")]

    @property
    def partition(self) -> Partition:
        """The one that is produced to, at its leader."""
        return next(each for each in self.logstore.core.partitions if each.topic == TOPIC)

    def _join(self) -> None:
        protocols = [JoinGroupRequestProtocol("range", b"")]
        request = JoinGroupRequest(GROUP, 30_000, 60_000, "", None, "consumer", protocols)
        request.member_id = self.ask(request, JOIN_VERSION).member_id
        joined = self.ask(request, JOIN_VERSION)
        assert joined.error_code == ErrorCode.NONE
        self._generation_id, self._member_id = joined.generation_id, joined.member_id
        assigned = [SyncGroupRequestAssignment(self._member_id, b"all of it")]
        sync = SyncGroupRequest(GROUP, self._generation_id, self._member_id, None, "consumer", "range", assigned)
        assert self.ask(sync, SYNC_VERSION).error_code == ErrorCode.NONE

    def _begin_to_produce(self) -> None:
        begun = self.ask(InitProducerIdRequest(TRANSACTIONAL_ID, 60_000), INIT_VERSION)
        assert begun.error_code == ErrorCode.NONE, begun
        self._producer_id, self._producer_epoch = begun.producer_id, begun.producer_epoch

    def prepare(self) -> None:
        """Commit some offsets and transactions; the last transaction has a record, and is open."""
        for _ in range(3):
            self.commit_offset()
            self._produce_in_transaction()
            self.end_transaction()
        self._produce_in_transaction()

    def commit_offset(self) -> Any:
        self._offset += 1
        partitions = [OffsetCommitRequestPartition(0, self._offset, committed_metadata="")]
        topics = [OffsetCommitRequestTopic(TOPIC, partitions=partitions)]
        request = OffsetCommitRequest(GROUP, self._generation_id, self._member_id, topics=topics)
        return self.ask(request, COMMIT_VERSION)

    def _produce_in_transaction(self) -> None:
        """The first records of a producer epoch: in version 2 each transaction has one of its own."""
        records = build_batch(
            [Record(b"k", b"v", WALL_MS)],
            producer_id=self._producer_id,
            producer_epoch=self._producer_epoch,
            base_sequence=0,
            is_transactional=True,
        )
        data = [TopicProduceData(TOPIC, partition_data=[PartitionProduceData(0, records)])]
        answer = self.ask(ProduceRequest(TRANSACTIONAL_ID, -1, 30_000, data), PRODUCE_VERSION)
        assert answer.responses[0].partition_responses[0].error_code == ErrorCode.NONE

    def end_transaction(self) -> Any:
        """Commit it; the response, when its marker is written and its end recorded."""
        request = EndTxnRequest(TRANSACTIONAL_ID, self._producer_id, self._producer_epoch, True)
        ended = self.ask(request, END_VERSION)
        self._producer_id, self._producer_epoch = ended.producer_id, ended.producer_epoch
        return ended
