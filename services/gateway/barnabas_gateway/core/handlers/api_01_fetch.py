"""Fetch, API key 1, versions 0 to 18 (Kafka 4.3: 4 to 18).

- v0 to v3 get records as message sets of magic 0 (v0, v1) or 1, as in Kafka 3. If
  `log.message.downconversion.enable` is off, ApiVersions does not list these versions, and they close the connection.
- Long polls: answered at once with `min_bytes`, with an error of a leader, with `max_wait_ms` 0 or less; else parked
  once. A session's polls that change nothing share what is parked, for `fetch_wait_ms_max` at most.
- `max_bytes` (at most `fetch.max.bytes`) is spent in the order of the request, with at least one batch (KIP-74), also
  when the partitions are on several logstores. In a session, partitions that had records go to the end of the order.
- Sessions (KIP-227, v7): epoch 0 begins one, −1 ends it, and both are full fetches. Any other epoch continues one:
  FETCH_SESSION_ID_NOT_FOUND, INVALID_FETCH_SESSION_EPOCH; FETCH_SESSION_TOPIC_ID_ERROR if it began with topic ids
  (v13) and is continued without them, or the other way round. An incremental answer has the partitions with records,
  an error, or a high watermark, last stable offset or log start that moved. A session that has no partitions left ends.
- Sessions live in the processor that the connection came to, and outlive the connection. Another connection of the same
  client may come to another processor, which does not know them: FETCH_SESSION_ID_NOT_FOUND, and the client begins a
  new session. Each processor has its share of `max.incremental.fetch.session.cache.slots`; when it is full, session id
  0 is answered, and the client continues with full fetches.
- A request that overtakes the one before it in its session ends that one as INVALID_FETCH_SESSION_EPOCH, at once.
- A partition named twice is fetched once, as named last, in the place of the first: Kafka collects them in a map.
- Epochs of the client go to the leader, which answers FENCED_LEADER_EPOCH or UNKNOWN_LEADER_EPOCH (KIP-320). If another
  broker is the leader, its id and endpoint are in the answer (v12, v16, KIP-951).
- The leader may name a nearer replica to a client that gives its rack (`client.rack`, v11, KIP-392), which ends a
  long poll; at the port of a broker with a replica of the partition it is read there, up to that replica's own high
  watermark. What it does not have yet is OFFSET_OUT_OF_RANGE there, and the client goes back to the leader. Under the
  address policy `shared` the processor reads from that replica itself, and the client is not redirected.
- Unknown topic or partition: UNKNOWN_TOPIC_OR_PARTITION, by id (v13) UNKNOWN_TOPIC_ID; these do not end a long poll.
  In a session a topic that was deleted becomes UNKNOWN_TOPIC_OR_PARTITION, by id INCONSISTENT_TOPIC_ID once another has
  its name; one that appears is read from the next request on.
- Replicas do not fetch through a gateway: a replica id of 0 or more is TOPIC_AUTHORIZATION_FAILED, as for any principal
  without CLUSTER_ACTION, and gets no session.

Deviations: a client without a rack gets a leader's answer at any port; no diverging epoch (consumers find truncation by
OffsetForLeaderEpoch), and no aborted transactions as there are no transactions yet.
"""

from __future__ import annotations

from barnabas.wire.api_keys import ApiKey
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.fetch import FetchRequest, FetchResponse
from barnabas.wire.primitives import Steps
from barnabas_gateway.core.model.fetch_target import READ_COMMITTED, FetchKey, FetchTarget
from barnabas_gateway.core.requests.fetch import PendingFetch
from barnabas_gateway.core.requests.fetch_handling import BaseFetchHandler
from barnabas_gateway.core.requests.fetch_sessions import FINAL_EPOCH, INITIAL_EPOCH, add_partitions

_VERSION_WITH_TOPIC_IDS = 13


class FetchHandler(BaseFetchHandler):
    api_key = ApiKey.FETCH
    request_class = PendingFetch

    def start(self, pending: PendingFetch, request: FetchRequest) -> Steps[None] | None:
        steps = _start_in_steps(pending, request)
        if pending.is_long:
            return steps
        for _ in steps:
            pass
        return None


def _start_in_steps(pending: PendingFetch, request: FetchRequest) -> Steps[None]:
    handler = pending.handler
    if pending.header.api_version < ApiKey.FETCH.version_min and not handler.config.fetch_down_conversion:
        handler.responder.refuse(pending.connection, pending.header, "the version is not served")
        return
    replica_id = request.replica_id if request.replica_state is None else request.replica_state.replica_id
    pending.is_replica = replica_id >= 0
    pending.by_id = pending.header.api_version >= _VERSION_WITH_TOPIC_IDS
    pending.max_bytes = max(0, min(request.max_bytes, handler.config.fetch_bytes_max))
    pending.min_bytes = min(request.min_bytes, pending.max_bytes)
    pending.rack_id = "" if pending.is_replica else request.rack_id
    pending.isolation_level = READ_COMMITTED if request.isolation_level == READ_COMMITTED else 0
    pending.deadline_ms = handler.clock.now_ms + request.max_wait_ms
    if request.session_epoch in (INITIAL_EPOCH, FINAL_EPOCH):
        handler.fetch_sessions.close_session(request.session_id)
        pending.begins_session = request.session_epoch == INITIAL_EPOCH and not pending.is_replica
        partitions: dict[FetchKey, FetchTarget] = {}
        yield from add_partitions(request.topics, partitions, by_id=pending.by_id)
        pending.read_partitions(partitions)
    else:
        yield from _start_incremental(pending, request)


def _start_incremental(pending: PendingFetch, request: FetchRequest) -> Steps[None]:
    """Continue a session: an incremental fetch."""
    handler = pending.handler
    sessions = handler.fetch_sessions
    session = sessions.resume_session(request.session_id, request.session_epoch, by_id=pending.by_id)
    if not isinstance(session, ErrorCode):
        if session.fetch is not None:
            session.fetch.supersede()
        is_changed = yield from session.update_partitions(request.topics, request.forgotten_topics_data)
        # Another request may have taken the session meanwhile, or it may have been evicted.
        session = sessions.resume_session(request.session_id, request.session_epoch, by_id=pending.by_id)
    if isinstance(session, ErrorCode):
        handler.responder.respond(pending, FetchResponse(error_code=session))
    elif not session.partitions:
        sessions.remove_session(session)
        pending.read_partitions({})
    elif not sessions.advance_session(session, handler.clock.now_ms):
        handler.responder.respond(pending, FetchResponse(error_code=ErrorCode.FETCH_SESSION_ID_NOT_FOUND))
    else:
        pending.resume_session(session, is_changed=is_changed)
