"""What the controller has sent to each logstore on its control stream, and what of it the logstore has acknowledged.

A stream begins with the full state: a full LeaderAndIsr, the replicas to delete, a full UpdateMetadata; changes follow.
The LeaderAndIsr carries the configs of brokers too: a logstore that has restarted leads from that command on, and must
not use its static `min.insync.replicas` until the UpdateMetadata arrives. The full state is sent again on an open
stream when the image was reloaded, because leadership is not affected by a reload. Nothing is sent before the node's
partitions have their leader epochs for its present registration, so that a restarted logstore never leads under the
epoch that it led before.

Partitions that a logstore had no disk for (KAFKA_STORAGE_ERROR) are sent again from time to time: a disk that was full
when a partition was to be created may have space by then. The logstore's answers also say which partitions are on a
full disk, and it is asked again whenever its registration says that a log directory has become full or has space again.
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
from barnabas_controller.core.members.control_session import ControlSession, Sent
from barnabas_controller.core.members.metadata import broker_configs
from barnabas_controller.core.state.changes import Changes
from barnabas_controller.core.state.effects import ConnectControl, DisconnectControl, Effect, SendControl
from barnabas_controller.core.state.image import ControllerImage
from barnabas_controller.core.state.unknown_state import unknown_broker_configs, unknown_partitions, unknown_topics

# A logstore that leaves a command unanswered for this long gets a new stream, which begins with the full state.
ANSWER_TIMEOUT_MS = 30_000
# The delay between repetitions of what failed on a logstore's disks; it doubles every time.
REPEAT_MS_MIN = 1_000
REPEAT_MS_MAX = 60_000
# A logstore that accepts no commands for its registration is sent the full state again; the delay doubles each time.
TELL_MS_MIN = 50
TELL_MS_MAX = 1_000


class ControlLinks:
    def __init__(self, image: ControllerImage) -> None:
        self._image = image
        self.by_node: dict[int, ControlSession] = {}
        # When `min.insync.replicas` was last changed by this controller.
        self.min_isr_revision = 0
        # By topic id and partition: the logstores that have no disk for their replica, as far as their present streams
        # have reported.
        self.without_disk: dict[tuple[bytes, int], frozenset[int]] = {}
        # By topic id and partition: the logstores whose disk is too full to append to their replica.
        self.without_room: dict[tuple[bytes, int], frozenset[int]] = {}

    def follow_registrations(self) -> list[Effect]:
        """A session for every registration, and none for any other."""
        effects: list[Effect] = []
        registered = self._image.logstores
        for session in list(self.by_node.values()):
            current = registered.get(session.node_id)
            if current is None or current.epoch != session.broker_epoch:
                effects.append(self._close(session))
        for node_id, each in sorted(registered.items()):
            if node_id not in self.by_node:
                session = ControlSession(node_id, each.epoch, each.record.control_address, each.record.data_address)
                self.by_node[node_id] = session
                effects.append(_connect(session))
        return effects

    def tell_again(self) -> None:
        """Send every logstore the full state again, on its open stream."""
        for session in self.by_node.values():
            self._forget_sent(session)
            # Revisions may have started over, if etcd was restored.
            session.known_revision = -1

    def close_all(self) -> list[Effect]:
        return [self._close(session) for session in list(self.by_node.values())]

    def _close(self, session: ControlSession) -> Effect:
        del self.by_node[session.node_id]
        self._set_without_disk(session, set())
        self._set_without_room(session, set())
        return DisconnectControl(session.node_id, session.broker_epoch)

    def find(self, node_id: int, broker_epoch: int) -> ControlSession | None:
        """The session, unless it belongs to another registration by now."""
        session = self.by_node.get(node_id)
        return session if session is not None and session.broker_epoch == broker_epoch else None

    def on_connected(self, session: ControlSession) -> None:
        self.on_disconnected(session)
        session.connected = session.known_alive = True

    def on_disconnected(self, session: ControlSession) -> None:
        session.connected = False
        session.last_sequence = 0
        self._forget_sent(session)

    def on_refused(self, session: ControlSession, sequence: int, now_ms: int) -> None:
        """The logstore accepts no commands for this registration: only one of the two has learned of it from etcd so
        far.
        """
        if session.unanswered and session.unanswered[0].sequence == sequence:
            session.tell_wait_ms = min(max(2 * session.tell_wait_ms, TELL_MS_MIN), TELL_MS_MAX)
            session.tell_ms = now_ms + session.tell_wait_ms
            self._forget_sent(session)

    def _forget_sent(self, session: ControlSession) -> None:
        session.has_everything = False
        session.unanswered.clear()
        session.leadership_revision = session.metadata_revision = -1
        session.partition_errors.clear()
        session.repeat_wait_ms = 0

    def on_response(self, session: ControlSession, response: ControlResponse, now_ms: int) -> dict[bytes, None]:
        """Answers come in order; an answer to no outstanding command comes from a broken peer and is dropped.

        Return the topics of which, by this answer, replicas have lost their disk or the space on it, or have it again.
        """
        if not session.unanswered or session.unanswered[0].sequence != response.sequence:
            return {}
        sent = session.unanswered.popleft()
        session.tell_wait_ms = 0
        if response.error_code != ErrorCode.NONE:
            return {}
        failed = {(each.topic_id, each.partition): each.error_code for each in response.partition_errors}
        if sent.deleted_topic_id:
            unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            if all(error_code == unknown for error_code in failed.values()):
                session.deleted_topic_ids.add(sent.deleted_topic_id)
        elif sent.leadership_revision >= 0:
            session.leadership_revision = sent.leadership_revision
            assert sent.leader_and_isr is not None
            if session.partition_errors:
                # This answer replaces the earlier ones for every partition that was named.
                for topic in sent.leader_and_isr.topics:
                    for partition in topic.partitions:
                        session.partition_errors.pop((topic.topic_id, partition.partition), None)
            if not sent.is_repetition and failed:
                session.repeat_wait_ms = 0
            session.partition_errors.update(failed)
            if failed:
                session.repeat_wait_ms = min(max(2 * session.repeat_wait_ms, REPEAT_MS_MIN), REPEAT_MS_MAX)
                session.repeat_ms = now_ms + session.repeat_wait_ms
            return self._note_without_disk(session) | self._note_without_room(session, sent.leader_and_isr, response)
        elif sent.metadata_revision >= 0:
            session.metadata_revision = sent.metadata_revision
            session.known_revision = max(session.known_revision, sent.metadata_revision)
        return {}

    def _note_without_disk(self, session: ControlSession) -> dict[bytes, None]:
        errors = session.partition_errors.items()
        return self._set_without_disk(session, {key for key, error in errors if error == ErrorCode.KAFKA_STORAGE_ERROR})

    def _note_without_room(
        self, session: ControlSession, asked: LeaderAndIsr, response: ControlResponse
    ) -> dict[bytes, None]:
        if not response.without_room and not session.without_room:
            return {}
        named = {(topic.topic_id, each.partition) for topic in asked.topics for each in topic.partitions}
        reported = {(each.topic_id, each.partition) for each in response.without_room}
        others = set() if asked.full else session.without_room - named
        return self._set_without_room(session, others | (reported & named))

    def _forget_errors(self, session: ControlSession, gone: set[tuple[bytes, int]]) -> None:
        """The logstore has no replica of these any more, and is sent nothing about them."""
        for key in gone:
            session.partition_errors.pop(key, None)
        self._set_without_disk(session, session.without_disk - gone)
        self._set_without_room(session, session.without_room - gone)

    def _set_without_disk(self, session: ControlSession, failed: set[tuple[bytes, int]]) -> dict[bytes, None]:
        before, session.without_disk = session.without_disk, failed
        return _note_nodes(self.without_disk, session.node_id, before, failed)

    def _set_without_room(self, session: ControlSession, full: set[tuple[bytes, int]]) -> dict[bytes, None]:
        before, session.without_room = session.without_room, full
        return _note_nodes(self.without_room, session.node_id, before, full)

    def waiting_for_everything(self, now_ms: int) -> list[ControlSession]:
        """Return the links whose stream has just begun."""
        return [
            session for session in self.by_node.values() if _waits_for_everything(session) and now_ms >= session.tell_ms
        ]

    def tell_everything(
        self, session: ControlSession, full: UpdateMetadata, controller_epoch: int, now_ms: int
    ) -> list[Effect]:
        """Begin a stream with the full state. `full` is the present image."""
        image = self._image
        session.has_everything = True
        effects = [
            self._tell_leadership(session, _replicas_of(session.node_id, full), controller_epoch, now_ms, full=True)
        ]
        for topic_id in image.deletions:
            effects += self._tell_deletion(session, topic_id, controller_epoch, now_ms)
        effects.append(self._send(session, controller_epoch, now_ms, full))
        return effects

    def _tell_leadership(
        self, session: ControlSession, topics: list[TopicMetadata], controller_epoch: int, now_ms: int, *, full: bool
    ) -> Effect:
        """Send the LeaderAndIsr. `topics` contains the partitions that the logstore has a replica of."""
        image = self._image
        session.offline_log_dirs = self._offline_log_dirs(session)
        session.room_changes = self._room_changes(session)
        leader_and_isr = LeaderAndIsr(
            full=full,
            topics=topics,
            unknown_partitions=list(unknown_partitions(image)) if full else [],
            unknown_topics=unknown_topics(image) if full else [],
            revision=image.revision if full else 0,
            broker_configs=broker_configs(image) if full else [],
            unknown_broker_configs=unknown_broker_configs(image) if full else [],
        )
        return self._send(session, controller_epoch, now_ms, leader_and_isr)

    def _offline_log_dirs(self, session: ControlSession) -> frozenset[str]:
        return frozenset(self._image.logstores[session.node_id].record.offline_log_dirs)

    def _room_changes(self, session: ControlSession) -> int:
        return self._image.logstores[session.node_id].record.room_changes

    def ask_after_disks(self, controller_epoch: int, now_ms: int) -> list[Effect]:
        """Send a logstore its partitions again when it reports another directory offline, or one that has become full
        or has space again: its answer says which partitions are there.
        """
        return [
            self._tell_leadership(session, self._all_replicas_of(session), controller_epoch, now_ms, full=False)
            for session in self.by_node.values()
            if session.has_everything and self._has_another_disk_to_tell_of(session)
        ]

    def _all_replicas_of(self, session: ControlSession) -> list[TopicMetadata]:
        image = self._image
        topics = [image.topic_metadata(topic, session.node_id) for topic in image.topics.values()]
        return [topic for topic in topics if topic.partitions]

    def _has_another_disk_to_tell_of(self, session: ControlSession) -> bool:
        if self._room_changes(session) != session.room_changes:
            return True
        return not self._offline_log_dirs(session) <= session.offline_log_dirs

    def tell_changes(
        self, changes: Changes, update: UpdateMetadata | None, controller_epoch: int, now_ms: int
    ) -> list[Effect]:
        """Send the changes of a batch to each logstore whose stream has begun."""
        effects: list[Effect] = []
        for session in self.by_node.values():
            session.deleted_topic_ids.intersection_update(self._image.deletions)
            if not session.has_everything:
                continue
            if changes.deleted_topics:
                reported = (*session.partition_errors, *session.without_room)
                self._forget_errors(session, {key for key in reported if key[0] in changes.deleted_topics})
            for topic_id in changes.deleted_topics:
                effects += self._tell_deletion(session, topic_id, controller_epoch, now_ms)
            topics = [] if update is None else _replicas_of(session.node_id, update)
            if topics:
                leader_and_isr = LeaderAndIsr(full=False, topics=topics)
                effects.append(self._send(session, controller_epoch, now_ms, leader_and_isr))
            else:
                self._has_no_news_for(session)
            removed = self._removed_replicas(session, changes)
            if removed:
                effects.append(self._send(session, controller_epoch, now_ms, StopReplica(removed)))
            if update is not None:
                effects.append(self._send(session, controller_epoch, now_ms, update))
        return effects

    def _has_no_news_for(self, session: ControlSession) -> None:
        """What the logstore already knows of its partitions also holds at the present revision."""
        for sent in reversed(session.unanswered):
            if sent.leader_and_isr is not None:
                sent.leadership_revision = self._image.revision
                return
        if session.leadership_revision >= 0:
            session.leadership_revision = self._image.revision

    def _removed_replicas(self, session: ControlSession, changes: Changes) -> list[StopReplicaPartition]:
        """The replicas that a reassignment has removed from it; on a later stream it finds them to be strays."""
        removed = []
        for topic_id, number in changes.removed_replicas.get(session.node_id, ()):
            partition = self._image.partition(topic_id, number)
            if partition is not None and session.node_id not in partition.replicas:
                topic = self._image.topics_by_id[topic_id].topic
                removed.append(StopReplicaPartition(topic, topic_id, number, partition.leader_epoch, delete=True))
                self._forget_errors(session, {(topic_id, number)})
        return removed

    def _tell_deletion(
        self, session: ControlSession, topic_id: bytes, controller_epoch: int, now_ms: int
    ) -> list[Effect]:
        deletion = self._image.deletions.get(topic_id)
        if deletion is None or topic_id in session.deleted_topic_ids:
            return []
        partitions = [
            StopReplicaPartition(deletion.topic, topic_id, number, EPOCH_DURING_DELETE, delete=True)
            for number, partition in self._image.partitions(topic_id)
            if session.node_id in partition.replicas
        ]
        if not partitions:
            return []
        return [self._send(session, controller_epoch, now_ms, StopReplica(partitions), deleted_topic_id=topic_id)]

    def _send(
        self,
        session: ControlSession,
        controller_epoch: int,
        now_ms: int,
        body: LeaderAndIsr | StopReplica | UpdateMetadata,
        deleted_topic_id: bytes = b"",
        *,
        is_repetition: bool = False,
    ) -> Effect:
        session.last_sequence += 1
        leader_and_isr = body if isinstance(body, LeaderAndIsr) else None
        leadership_revision = -1 if leader_and_isr is None else self._image.revision
        metadata_revision = body.revision if isinstance(body, UpdateMetadata) else -1
        session.unanswered.append(
            Sent(
                session.last_sequence,
                now_ms,
                leadership_revision,
                metadata_revision,
                deleted_topic_id,
                leader_and_isr,
                is_repetition,
            )
        )
        request = ControlRequest(
            sequence=session.last_sequence,
            controller_epoch=controller_epoch,
            broker_epoch=session.broker_epoch,
            leader_and_isr=leader_and_isr,
            stop_replica=body if isinstance(body, StopReplica) else None,
            update_metadata=body if isinstance(body, UpdateMetadata) else None,
        )
        return SendControl(session.node_id, session.broker_epoch, request)

    def reconnect_unresponsive(self, now_ms: int) -> list[Effect]:
        """Open a new stream to each logstore that has left a command unanswered for too long."""
        effects: list[Effect] = []
        for session in self.by_node.values():
            if session.unanswered and now_ms >= session.unanswered[0].sent_ms + ANSWER_TIMEOUT_MS:
                effects += self.reconnect(session)
        return effects

    def repeat_failed(self, controller_epoch: int, now_ms: int) -> list[Effect]:
        """Repeat LeaderAndIsr for what a logstore had no disk for, once no other command is outstanding."""
        effects: list[Effect] = []
        for session in self.by_node.values():
            if now_ms >= session.repeat_ms and (keys := _to_be_repeated(session)):
                effects.append(self._repeat(session, keys, controller_epoch, now_ms))
        return effects

    def _repeat(
        self, session: ControlSession, keys: tuple[tuple[bytes, int], ...], controller_epoch: int, now_ms: int
    ) -> Effect:
        partitions_of: dict[bytes, set[int]] = {}
        for topic_id, partition in keys:
            partitions_of.setdefault(topic_id, set()).add(partition)
        topics = []
        for topic_id, numbers in partitions_of.items():
            topic = self._image.topics_by_id.get(topic_id)
            if topic is not None:
                metadata = self._image.topic_metadata(topic, session.node_id)
                failed = [each for each in metadata.partitions if each.partition in numbers]
                topics.append(replace(metadata, partitions=failed))
        return self._send(
            session, controller_epoch, now_ms, LeaderAndIsr(full=False, topics=topics), is_repetition=True
        )

    def reconnect(self, session: ControlSession) -> list[Effect]:
        """Open a new stream, which begins with the full state."""
        self.on_disconnected(session)
        return [DisconnectControl(session.node_id, session.broker_epoch), _connect(session)]

    def due_ms(self, now_ms: int) -> int | None:
        """When `reconnect_unresponsive`, `repeat_failed` or `waiting_for_everything` next has something to do."""
        links = self.by_node.values()
        dues = [session.unanswered[0].sent_ms + ANSWER_TIMEOUT_MS for session in links if session.unanswered]
        dues += [session.repeat_ms for session in links if _to_be_repeated(session)]
        dues += [session.tell_ms for session in links if _waits_for_everything(session) and session.tell_ms > now_ms]
        return min(dues, default=None)

    def leaders_know(self, topic_id: bytes, revision: int) -> bool:
        """Whether every partition has a leader that leads it as of at least `revision`."""
        partitions = self._image.partitions(topic_id)
        return all(self._leads(partition.leader, (topic_id, number), revision) for number, partition in partitions)

    def leader_knows(self, topic_id: bytes, number: int, revision: int) -> bool:
        """Whether the partition has a leader that leads it as of at least `revision`."""
        partition = self._image.partition(topic_id, number)
        return partition is not None and self._leads(partition.leader, (topic_id, number), revision)

    def _leads(self, leader: int, key: tuple[bytes, int], revision: int) -> bool:
        session = self.by_node.get(leader)
        return session is not None and session.leadership_revision >= revision and key not in session.partition_errors

    def unaware(self) -> frozenset[int]:
        """Return the logstores that may lead under another `min.insync.replicas` than the present one, because they
        have not acknowledged it to this controller, connected or not.
        """
        return frozenset([node_id for node_id, session in self.by_node.items() if self.is_unaware(session)])

    def is_unaware(self, session: ControlSession) -> bool:
        return session.known_revision < self.min_isr_revision

    def logstores_know(self, revision: int) -> bool:
        """Whether all connected logstores have acknowledged the UpdateMetadata of `revision`."""
        return all(session.metadata_revision >= revision for session in self.by_node.values() if session.connected)

    def deletion_waits_for(self, topic_id: bytes) -> list[int]:
        """Return the logstores that have not deleted their replicas of a topic under deletion."""
        nodes = {node_id for _, partition in self._image.partitions(topic_id) for node_id in partition.replicas}
        return sorted(each for each in nodes if not self._has_deleted(each, topic_id))

    def _has_deleted(self, node_id: int, topic_id: bytes) -> bool:
        session = self.by_node.get(node_id)
        return session is not None and topic_id in session.deleted_topic_ids


def _replicas_of(node_id: int, update: UpdateMetadata) -> list[TopicMetadata]:
    """Return the topics of an update with the partitions that this logstore has a replica of.

    They are the update's own objects, so that a topic of ten thousand partitions is converted once and not once per
    logstore.
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
    """Record the results of one node's partitions. Return the topics whose result has changed."""
    changed = sorted(before ^ now)
    for key in changed:
        nodes = nodes_of.pop(key, frozenset()) ^ {node_id}
        if nodes:
            nodes_of[key] = nodes
    return {topic_id: None for topic_id, _ in changed}


def _to_be_repeated(session: ControlSession) -> tuple[tuple[bytes, int], ...]:
    """Return the partitions that the logstore had no disk for; none while it has commands to answer."""
    if session.unanswered or not session.partition_errors:
        return ()
    return tuple(key for key, error in session.partition_errors.items() if error == ErrorCode.KAFKA_STORAGE_ERROR)


def _waits_for_everything(session: ControlSession) -> bool:
    return session.connected and not session.has_everything


def _connect(session: ControlSession) -> ConnectControl:
    return ConnectControl(session.node_id, session.broker_epoch, session.control_address, session.data_address)
