"""What each logstore has been told on its control stream, and what of it it has done.

A stream begins with everything: a full LeaderAndIsr, the replicas to delete, a full UpdateMetadata; then come changes.
The LeaderAndIsr carries the configs of brokers, too: a logstore that has restarted leads from that command on, and must
not go by its static `min.insync.replicas` until the UpdateMetadata is there.
The same comes again on an open stream when the image has been read anew: who leads has no part in that.
Nothing is told before the node's partitions have their leader epochs for its present registration, so that a restarted
logstore never leads under the epoch it led before.

What a logstore had no disk for (KAFKA_STORAGE_ERROR) it is told again now and then: a disk that was full when a
partition was to be made may have room by then. Its answers also say what lies on a full disk, and it is asked once
more whenever its registration says that a log directory has become full, or has got room.
"""

from __future__ import annotations

from dataclasses import replace

from barnabas.cluster.messages import (
    EPOCH_DURING_DELETE,
    ControlRequest,
    ControlResponse,
    LeaderAndIsr,
    StopReplica,
    StopReplicaPartition,
    TopicMetadata,
    UpdateMetadata,
)
from barnabas.wire.errors import ErrorCode
from barnabas_controller.core.control_link import ControlLink, Sent
from barnabas_controller.core.effects import ConnectControl, DisconnectControl, Effect, SendControl
from barnabas_controller.core.image import Changes, ControllerImage
from barnabas_controller.core.metadata import broker_configs
from barnabas_controller.core.unknown_state import unknown_broker_configs, unknown_partitions, unknown_topics

# A logstore that leaves a command unanswered for so long gets a new stream, and with it everything again.
ANSWER_TIMEOUT_MS = 30_000
# Between repetitions of what failed on a logstore's disks: twice as long every time.
REPEAT_MS_MIN = 1_000
REPEAT_MS_MAX = 60_000
# A logstore that takes no commands for its registration is told everything again, each time twice as much later.
TELL_MS_MIN = 50
TELL_MS_MAX = 1_000


class ControlLinks:
    def __init__(self, image: ControllerImage) -> None:
        self._image = image
        self.by_node: dict[int, ControlLink] = {}
        # When `min.insync.replicas` was last changed by this controller.
        self.min_isr_revision = 0
        # By topic id and partition: who has no disk for its replica, as far as the streams of today have told.
        self.without_disk: dict[tuple[bytes, int], frozenset[int]] = {}
        # Likewise: who has no room for more in its replica.
        self.without_room: dict[tuple[bytes, int], frozenset[int]] = {}

    def follow_registrations(self) -> list[Effect]:
        """A link for every registration, and none for any other."""
        effects: list[Effect] = []
        registered = self._image.logstores
        for link in list(self.by_node.values()):
            current = registered.get(link.node_id)
            if current is None or current.epoch != link.broker_epoch:
                effects.append(self._close(link))
        for node_id, each in sorted(registered.items()):
            if node_id not in self.by_node:
                link = ControlLink(node_id, each.epoch, each.record.control_address, each.record.data_address)
                self.by_node[node_id] = link
                effects.append(_connect(link))
        return effects

    def tell_again(self) -> None:
        """Every stream goes on, and each logstore is told everything again on it."""
        for link in self.by_node.values():
            self._forget_told(link)
            # Revisions may have begun again, where etcd was restored.
            link.known_revision = -1

    def close_all(self) -> list[Effect]:
        return [self._close(link) for link in list(self.by_node.values())]

    def _close(self, link: ControlLink) -> Effect:
        del self.by_node[link.node_id]
        self._set_without_disk(link, set())
        self._set_without_room(link, set())
        return DisconnectControl(link.node_id, link.broker_epoch)

    def find(self, node_id: int, broker_epoch: int) -> ControlLink | None:
        """The link, unless it belongs to another registration by now."""
        link = self.by_node.get(node_id)
        return link if link is not None and link.broker_epoch == broker_epoch else None

    def on_connected(self, link: ControlLink) -> None:
        self.on_disconnected(link)
        link.connected = link.known_alive = True

    def on_disconnected(self, link: ControlLink) -> None:
        link.connected = False
        link.last_sequence = 0
        self._forget_told(link)

    def on_refused(self, link: ControlLink, sequence: int, now_ms: int) -> None:
        """It takes no commands for this registration: etcd has told one of us of it, and not yet the other."""
        if link.unanswered and link.unanswered[0].sequence == sequence:
            link.tell_wait_ms = min(max(2 * link.tell_wait_ms, TELL_MS_MIN), TELL_MS_MAX)
            link.tell_ms = now_ms + link.tell_wait_ms
            self._forget_told(link)

    def _forget_told(self, link: ControlLink) -> None:
        link.told_everything = False
        link.unanswered.clear()
        link.leadership_revision = link.metadata_revision = -1
        link.partition_errors.clear()
        link.repeat_wait_ms = 0

    def on_response(self, link: ControlLink, response: ControlResponse, now_ms: int) -> dict[bytes, None]:
        """Answers come in order; one to nothing that was asked is a broken peer's, and is dropped.

        Returns the topics of which replicas have lost their disk by it, or the room on it, or have it again.
        """
        if not link.unanswered or link.unanswered[0].sequence != response.sequence:
            return {}
        sent = link.unanswered.popleft()
        link.tell_wait_ms = 0
        if response.error_code != ErrorCode.NONE:
            return {}
        failed = {(each.topic_id, each.partition): each.error_code for each in response.partition_errors}
        if sent.deleted_topic_id:
            unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            if all(error_code == unknown for error_code in failed.values()):
                link.deleted_topic_ids.add(sent.deleted_topic_id)
        elif sent.leadership_revision >= 0:
            link.leadership_revision = sent.leadership_revision
            assert sent.leader_and_isr is not None
            if link.partition_errors:
                # What is answered now stands for every partition that was named.
                for topic in sent.leader_and_isr.topics:
                    for partition in topic.partitions:
                        link.partition_errors.pop((topic.topic_id, partition.partition), None)
            if not sent.is_repetition and failed:
                link.repeat_wait_ms = 0
            link.partition_errors.update(failed)
            if failed:
                link.repeat_wait_ms = min(max(2 * link.repeat_wait_ms, REPEAT_MS_MIN), REPEAT_MS_MAX)
                link.repeat_ms = now_ms + link.repeat_wait_ms
            return self._note_without_disk(link) | self._note_without_room(link, sent.leader_and_isr, response)
        elif sent.metadata_revision >= 0:
            link.metadata_revision = sent.metadata_revision
            link.known_revision = max(link.known_revision, sent.metadata_revision)
        return {}

    def _note_without_disk(self, link: ControlLink) -> dict[bytes, None]:
        errors = link.partition_errors.items()
        return self._set_without_disk(link, {key for key, error in errors if error == ErrorCode.KAFKA_STORAGE_ERROR})

    def _note_without_room(
        self, link: ControlLink, asked: LeaderAndIsr, response: ControlResponse
    ) -> dict[bytes, None]:
        if not response.without_room and not link.without_room:
            return {}
        named = {(topic.topic_id, each.partition) for topic in asked.topics for each in topic.partitions}
        told = {(each.topic_id, each.partition) for each in response.without_room}
        others = set() if asked.full else link.without_room - named
        return self._set_without_room(link, others | (told & named))

    def _forget_errors(self, link: ControlLink, gone: set[tuple[bytes, int]]) -> None:
        """It has no replica of these any more, and is told nothing of them."""
        for key in gone:
            link.partition_errors.pop(key, None)
        self._set_without_disk(link, link.without_disk - gone)
        self._set_without_room(link, link.without_room - gone)

    def _set_without_disk(self, link: ControlLink, failed: set[tuple[bytes, int]]) -> dict[bytes, None]:
        before, link.without_disk = link.without_disk, failed
        return _note_nodes(self.without_disk, link.node_id, before, failed)

    def _set_without_room(self, link: ControlLink, full: set[tuple[bytes, int]]) -> dict[bytes, None]:
        before, link.without_room = link.without_room, full
        return _note_nodes(self.without_room, link.node_id, before, full)

    def to_be_told(self, now_ms: int) -> list[ControlLink]:
        """Whose stream is at its beginning."""
        return [link for link in self.by_node.values() if _waits_for_everything(link) and now_ms >= link.tell_ms]

    def tell_everything(
        self, link: ControlLink, full: UpdateMetadata, controller_epoch: int, now_ms: int
    ) -> list[Effect]:
        """The beginning of a stream. `full` is the present image."""
        image = self._image
        link.told_everything = True
        effects = [self._tell_leadership(link, _replicas_of(link.node_id, full), controller_epoch, now_ms, full=True)]
        for topic_id in image.deletions:
            effects += self._tell_deletion(link, topic_id, controller_epoch, now_ms)
        effects.append(self._send(link, controller_epoch, now_ms, full))
        return effects

    def _tell_leadership(
        self, link: ControlLink, topics: list[TopicMetadata], controller_epoch: int, now_ms: int, *, full: bool
    ) -> Effect:
        """`topics` with the partitions that it has a replica of."""
        image = self._image
        link.offline_log_dirs = self._offline_log_dirs(link)
        link.room_changes = self._room_changes(link)
        leader_and_isr = LeaderAndIsr(
            full=full,
            topics=topics,
            unknown_partitions=list(unknown_partitions(image)) if full else [],
            unknown_topics=unknown_topics(image) if full else [],
            revision=image.revision if full else 0,
            broker_configs=broker_configs(image) if full else [],
            unknown_broker_configs=unknown_broker_configs(image) if full else [],
        )
        return self._send(link, controller_epoch, now_ms, leader_and_isr)

    def _offline_log_dirs(self, link: ControlLink) -> frozenset[str]:
        return frozenset(self._image.logstores[link.node_id].record.offline_log_dirs)

    def _room_changes(self, link: ControlLink) -> int:
        return self._image.logstores[link.node_id].record.room_changes

    def ask_after_disks(self, controller_epoch: int, now_ms: int) -> list[Effect]:
        """Who tells of another directory that is offline, or that has become full or got room, is told its partitions
        once more: the answer says which lie there.
        """
        return [
            self._tell_leadership(link, self._all_replicas_of(link), controller_epoch, now_ms, full=False)
            for link in self.by_node.values()
            if link.told_everything and self._has_another_disk_to_tell_of(link)
        ]

    def _all_replicas_of(self, link: ControlLink) -> list[TopicMetadata]:
        image = self._image
        topics = [image.topic_metadata(topic, link.node_id) for topic in image.topics.values()]
        return [topic for topic in topics if topic.partitions]

    def _has_another_disk_to_tell_of(self, link: ControlLink) -> bool:
        if self._room_changes(link) != link.room_changes:
            return True
        return not self._offline_log_dirs(link) <= link.offline_log_dirs

    def tell_changes(
        self, changes: Changes, update: UpdateMetadata | None, controller_epoch: int, now_ms: int
    ) -> list[Effect]:
        """What a batch means to each logstore that has heard the beginning."""
        effects: list[Effect] = []
        for link in self.by_node.values():
            link.deleted_topic_ids.intersection_update(self._image.deletions)
            if not link.told_everything:
                continue
            if changes.deleted_topics:
                told = (*link.partition_errors, *link.without_room)
                self._forget_errors(link, {key for key in told if key[0] in changes.deleted_topics})
            for topic_id in changes.deleted_topics:
                effects += self._tell_deletion(link, topic_id, controller_epoch, now_ms)
            topics = [] if update is None else _replicas_of(link.node_id, update)
            if topics:
                leader_and_isr = LeaderAndIsr(full=False, topics=topics)
                effects.append(self._send(link, controller_epoch, now_ms, leader_and_isr))
            else:
                self._has_no_news_for(link)
            removed = self._removed_replicas(link, changes)
            if removed:
                effects.append(self._send(link, controller_epoch, now_ms, StopReplica(removed)))
            if update is not None:
                effects.append(self._send(link, controller_epoch, now_ms, update))
        return effects

    def _has_no_news_for(self, link: ControlLink) -> None:
        """What it is told of its partitions already is what there is to know of the present revision too."""
        for sent in reversed(link.unanswered):
            if sent.leader_and_isr is not None:
                sent.leadership_revision = self._image.revision
                return
        if link.leadership_revision >= 0:
            link.leadership_revision = self._image.revision

    def _removed_replicas(self, link: ControlLink, changes: Changes) -> list[StopReplicaPartition]:
        """What a reassignment has taken from it; a stream that begins later finds them to be strays."""
        removed = []
        for topic_id, number in changes.removed_replicas.get(link.node_id, ()):
            partition = self._image.partition(topic_id, number)
            if partition is not None and link.node_id not in partition.replicas:
                topic = self._image.topics_by_id[topic_id].topic
                removed.append(StopReplicaPartition(topic, topic_id, number, partition.leader_epoch, delete=True))
                self._forget_errors(link, {(topic_id, number)})
        return removed

    def _tell_deletion(self, link: ControlLink, topic_id: bytes, controller_epoch: int, now_ms: int) -> list[Effect]:
        deletion = self._image.deletions.get(topic_id)
        if deletion is None or topic_id in link.deleted_topic_ids:
            return []
        partitions = [
            StopReplicaPartition(deletion.topic, topic_id, number, EPOCH_DURING_DELETE, delete=True)
            for number, partition in self._image.partitions(topic_id)
            if link.node_id in partition.replicas
        ]
        if not partitions:
            return []
        return [self._send(link, controller_epoch, now_ms, StopReplica(partitions), deleted_topic_id=topic_id)]

    def _send(
        self,
        link: ControlLink,
        controller_epoch: int,
        now_ms: int,
        body: LeaderAndIsr | StopReplica | UpdateMetadata,
        deleted_topic_id: bytes = b"",
        *,
        is_repetition: bool = False,
    ) -> Effect:
        link.last_sequence += 1
        leader_and_isr = body if isinstance(body, LeaderAndIsr) else None
        leadership_revision = -1 if leader_and_isr is None else self._image.revision
        metadata_revision = body.revision if isinstance(body, UpdateMetadata) else -1
        link.unanswered.append(
            Sent(
                link.last_sequence,
                now_ms,
                leadership_revision,
                metadata_revision,
                deleted_topic_id,
                leader_and_isr,
                is_repetition,
            )
        )
        request = ControlRequest(
            sequence=link.last_sequence,
            controller_epoch=controller_epoch,
            broker_epoch=link.broker_epoch,
            leader_and_isr=leader_and_isr,
            stop_replica=body if isinstance(body, StopReplica) else None,
            update_metadata=body if isinstance(body, UpdateMetadata) else None,
        )
        return SendControl(link.node_id, link.broker_epoch, request)

    def reconnect_unresponsive(self, now_ms: int) -> list[Effect]:
        """A new stream to whoever has left a command unanswered for too long."""
        effects: list[Effect] = []
        for link in self.by_node.values():
            if link.unanswered and now_ms >= link.unanswered[0].sent_ms + ANSWER_TIMEOUT_MS:
                effects += self.reconnect(link)
        return effects

    def repeat_failed(self, controller_epoch: int, now_ms: int) -> list[Effect]:
        """LeaderAndIsr once more for what a logstore had no disk for, once nothing else is unanswered."""
        effects: list[Effect] = []
        for link in self.by_node.values():
            if now_ms >= link.repeat_ms and (keys := _to_be_repeated(link)):
                effects.append(self._repeat(link, keys, controller_epoch, now_ms))
        return effects

    def _repeat(
        self, link: ControlLink, keys: tuple[tuple[bytes, int], ...], controller_epoch: int, now_ms: int
    ) -> Effect:
        partitions_of: dict[bytes, set[int]] = {}
        for topic_id, partition in keys:
            partitions_of.setdefault(topic_id, set()).add(partition)
        topics = []
        for topic_id, numbers in partitions_of.items():
            topic = self._image.topics_by_id.get(topic_id)
            if topic is not None:
                metadata = self._image.topic_metadata(topic, link.node_id)
                failed = [each for each in metadata.partitions if each.partition in numbers]
                topics.append(replace(metadata, partitions=failed))
        return self._send(link, controller_epoch, now_ms, LeaderAndIsr(full=False, topics=topics), is_repetition=True)

    def reconnect(self, link: ControlLink) -> list[Effect]:
        """A new stream, and with it everything again."""
        self.on_disconnected(link)
        return [DisconnectControl(link.node_id, link.broker_epoch), _connect(link)]

    def due_ms(self, now_ms: int) -> int | None:
        """When `reconnect_unresponsive`, `repeat_failed` or `to_be_told` next has something to do."""
        links = self.by_node.values()
        dues = [link.unanswered[0].sent_ms + ANSWER_TIMEOUT_MS for link in links if link.unanswered]
        dues += [link.repeat_ms for link in links if _to_be_repeated(link)]
        dues += [link.tell_ms for link in links if _waits_for_everything(link) and link.tell_ms > now_ms]
        return min(dues, default=None)

    def leaders_know(self, topic_id: bytes, revision: int) -> bool:
        """Every partition has a leader that leads it, as of `revision` at least."""
        partitions = self._image.partitions(topic_id)
        return all(self._leads(partition.leader, (topic_id, number), revision) for number, partition in partitions)

    def leader_knows(self, topic_id: bytes, number: int, revision: int) -> bool:
        """The same of one partition."""
        partition = self._image.partition(topic_id, number)
        return partition is not None and self._leads(partition.leader, (topic_id, number), revision)

    def _leads(self, leader: int, key: tuple[bytes, int], revision: int) -> bool:
        link = self.by_node.get(leader)
        return link is not None and link.leadership_revision >= revision and key not in link.partition_errors

    def unaware(self) -> frozenset[int]:
        """Who may lead under another `min.insync.replicas` than the present one: it has not acknowledged that to this
        controller, connected or not.
        """
        return frozenset([node_id for node_id, link in self.by_node.items() if self.is_unaware(link)])

    def is_unaware(self, link: ControlLink) -> bool:
        return link.known_revision < self.min_isr_revision

    def logstores_know(self, revision: int) -> bool:
        """All that are connected have been told, and have answered, what members are told of `revision`."""
        return all(link.metadata_revision >= revision for link in self.by_node.values() if link.connected)

    def deletion_waits_for(self, topic_id: bytes) -> list[int]:
        """The logstores that have not deleted their replicas of a topic under deletion."""
        nodes = {node_id for _, partition in self._image.partitions(topic_id) for node_id in partition.replicas}
        return sorted(each for each in nodes if not self._has_deleted(each, topic_id))

    def _has_deleted(self, node_id: int, topic_id: bytes) -> bool:
        link = self.by_node.get(node_id)
        return link is not None and topic_id in link.deleted_topic_ids


def _replicas_of(node_id: int, update: UpdateMetadata) -> list[TopicMetadata]:
    """The topics of an update with the partitions that this logstore has a replica of.

    They are the update's own objects: a topic of ten thousand partitions is converted once, not once for each logstore.
    """
    topics = []
    for topic in update.topics:
        partitions = [each for each in topic.partitions if node_id in each.replicas]
        if partitions:
            topics.append(replace(topic, partitions=partitions))
    return topics


def _note_nodes(
    nodes_of: dict[tuple[bytes, int], frozenset[int]],
    node_id: int,
    before: set[tuple[bytes, int]],
    now: set[tuple[bytes, int]],
) -> dict[bytes, None]:
    """Enter what has become of one node's partitions; the topics of those that have changed."""
    changed = sorted(before ^ now)
    for key in changed:
        nodes = nodes_of.pop(key, frozenset()) ^ {node_id}
        if nodes:
            nodes_of[key] = nodes
    return {topic_id: None for topic_id, _ in changed}


def _to_be_repeated(link: ControlLink) -> tuple[tuple[bytes, int], ...]:
    """The partitions that the logstore had no disk for; none while it has commands to answer."""
    if link.unanswered or not link.partition_errors:
        return ()
    return tuple(key for key, error in link.partition_errors.items() if error == ErrorCode.KAFKA_STORAGE_ERROR)


def _waits_for_everything(link: ControlLink) -> bool:
    return link.connected and not link.told_everything


def _connect(link: ControlLink) -> ConnectControl:
    return ConnectControl(link.node_id, link.broker_epoch, link.control_address, link.data_address)
