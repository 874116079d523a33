"""ControllerCore: everything that a controller decides, without I/O, clock or threads.

The host, the shell's `ControllerDriver` or the simulation, has this loop:

    wait for input, or for core.next_deadline_ms(now_ms)
    one of:
        core.on_lease(lease, deadline_ms, now_ms)
        core.on_image(snapshot or batch, now_ms)                  # the etcd watch of the whole prefix
        core.on_txn_result / on_txn_ambiguous / on_txn_refused    # of a SubmitTxn
        core.on_control_connected / on_control_disconnected / on_control_response / on_peer_gone
        core.on_subscribed / on_acknowledged / on_unsubscribed
        core.on_request(request_id, request, now_ms)
        core.on_tick(now_ms)                                      # time has passed
    carry out core.take_outputs().effects, in order

Each input is a turn: what follows from it is decided at once. Standby controllers are fed the same and keep the same
image, so that taking over is one Txn. What is decided is decided on the image and written by one Txn at a time: leader
elections first, then requests in their order, then what can wait.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence

from barnabas.cluster.controller_calls.table import MembershipRequest
from barnabas.cluster.keys import ControllerRegistration, Keys, Role
from barnabas.cluster.messages import AlterPartitionRequest, ControlledShutdownRequest, ControlResponse
from barnabas.cluster.quotas.shares import ShareOwner, ShareQuotasRequest, ShareQuotasResponse
from barnabas.ports.etcd import Snapshot, TxnResult, WatchBatch
from barnabas.wire.errors import ErrorCode
from barnabas_controller.core.elections.controlled_shutdowns import ControlledShutdowns
from barnabas_controller.core.elections.elections_on_demand import LeadersOnDemand
from barnabas_controller.core.elections.isr_changes import IsrChanges
from barnabas_controller.core.elections.leader_elections import PARTITIONS_PER_LOOK, LeaderElections
from barnabas_controller.core.elections.min_isr_changes import MinInsyncReplicasChanges
from barnabas_controller.core.elections.reassignments import Reassignments
from barnabas_controller.core.members.control_links import ControlLinks
from barnabas_controller.core.members.known_members import note_members
from barnabas_controller.core.members.liveness import LogstoreLiveness
from barnabas_controller.core.members.metadata import full_update, incremental_update, without_gateways_own
from barnabas_controller.core.members.reported_health import ReportedHealth
from barnabas_controller.core.members.subscriptions import Subscriber, Subscriptions
from barnabas_controller.core.operations.drains import Drains
from barnabas_controller.core.operations.node_administration import NodeAdministration
from barnabas_controller.core.requests.request_decisions import RequestDecisions
from barnabas_controller.core.requests.request_queue import RequestQueue
from barnabas_controller.core.state.candidacy import Candidacy
from barnabas_controller.core.state.changes import Changes
from barnabas_controller.core.state.cluster_upgrade import raise_format
from barnabas_controller.core.state.effects import (
    ActiveChanged,
    Effect,
    EndSubscription,
    Outputs,
    Reject,
    Respond,
    RevokeLease,
)
from barnabas_controller.core.state.etcd_txn_pipeline import EtcdTxnPipeline
from barnabas_controller.core.state.events import EventLog
from barnabas_controller.core.state.image import ControllerImage
from barnabas_controller.core.state.operator_requests import OperatorRequest
from barnabas_controller.core.state.partition_changes import Liveness
from barnabas_controller.core.state.settings import ElectionSettings
from barnabas_controller.core.state.topic_rules import TopicRulesTable
from barnabas_controller.core.state.unknown_state import knows_all_claims, unreadable_chunks
from barnabas_controller.core.state.writes import OPERATIONS_MAX, Step, Write
from barnabas_controller.core.topics.token_changes import TokenChanges, TokenSettings
from barnabas_controller.core.topics.topic_creation import TopicDefaults, create_topics
from barnabas_controller.core.topics.topic_deletion import finish_deletion, remove_unclaimed_chunks

# How often to look for members that have been gone for long.
_TIDY_MS = 60_000


class ControllerCore:
    def __init__(
        self,
        keys: Keys,
        registration: ControllerRegistration,
        defaults: TopicDefaults,
        new_topic_id: Callable[[], bytes],
        new_cluster_id: Callable[[], str],
        wall_ms: Callable[[], int],
        settings: ElectionSettings = ElectionSettings(),  # noqa: B008 - it is frozen
        token_settings: TokenSettings = TokenSettings(),  # noqa: B008 - it is frozen
    ) -> None:
        """`new_topic_id` returns 16 random bytes; `wall_ms` is for records that people read, and decides when
        delegation tokens expire.
        """
        self.image = ControllerImage(keys)
        self.txn_pipeline = EtcdTxnPipeline(self.image)
        self.candidacy = Candidacy(self.image, registration, self.txn_pipeline.next_txn_id, new_cluster_id, wall_ms)
        self.links = ControlLinks(self.image)
        self.subscriptions = Subscriptions()
        self._settings = settings
        self._liveness = LogstoreLiveness(self.image, self.links)
        self.rules = TopicRulesTable(self.image, settings.topic_defaults())
        self.drains = Drains(self.image, self._liveness, self.rules)
        self.events = EventLog(self.image)
        self._leaders_on_demand = LeadersOnDemand(self.image, self._liveness, self.rules)
        self._tokens = TokenChanges(self.image, token_settings, wall_ms)
        min_isr_changes = MinInsyncReplicasChanges(self.image, self.links, self.rules)
        decisions = RequestDecisions(
            self.image,
            lambda request, live: create_topics(self.image, request, defaults, new_topic_id, live),
            self._liveness,
            self._leaders_on_demand,
            Reassignments(self.image, self._liveness, self.rules),
            NodeAdministration(self.image, self._liveness, self.rules, self.drains, wall_ms),
            min_isr_changes,
            self._tokens,
        )
        self._requests = RequestQueue(decisions, self.links, self.subscriptions, min_isr_changes)
        self.contained = self._requests.contained
        self.reported_health = ReportedHealth(self.image, registration.controller_id, self.contained)
        self._isr_changes = IsrChanges(self.image, self.rules)
        self._shutdowns = ControlledShutdowns(self.image, self._liveness)
        self._wall_ms = wall_ms
        self._effects: list[Effect] = []
        self._active = False
        self._quota_shares = ShareOwner()
        self._elections = LeaderElections(self.image, self.rules)
        # How many partitions the elections may still look at in this turn.
        self._looks_left = PARTITIONS_PER_LOOK
        # What to do when the Txn in flight is in the image.
        self._on_committed: Callable[[], list[Effect]] | None = None
        self._isr_changes_went_last = False
        # Elections of preferred leaders in progress, and when the balance is checked next.
        self._balance: deque[Step] = deque()
        self._balance_ms = 0
        self._members_due = False
        # Whether replicas may still have to be moved off a drained logstore, and may be able to.
        self._drains_due = False
        # Whether a replica of a deleted topic may have been deleted since the last look.
        self._deletions_due = False
        self._unclaimed_due = False
        self._tidy_ms = 0

    @property
    def active(self) -> bool:
        return self._active

    @property
    def ready(self) -> bool:
        """Whether it knows the cluster, and is active or stands by for the active one."""
        return self._active or (self.image.loaded and self.image.election is not None)

    def on_lease(self, lease: int, deadline_ms: int, now_ms: int) -> None:
        """A lease was granted or renewed. `deadline_ms` counts from when the request was sent."""
        self.candidacy.on_lease(lease, deadline_ms)
        self._turn(now_ms)

    def on_image(self, change: Snapshot | WatchBatch, now_ms: int) -> None:
        """Apply what the watch of the whole prefix returns: the full state first, then changes, in order."""
        if isinstance(change, Snapshot):
            self.image.load(change)
            self.events.restart()
            self._follow_election(now_ms)
            if self._active:
                self._begin_again()
        else:
            changes = self.image.apply(change)
            self.events.record(changes, self._wall_ms())
            was_active = self._active
            self._follow_election(now_ms)
            if self._active and was_active:
                self._follow(changes, now_ms)
        self._turn(now_ms)

    def on_txn_result(self, txn_id: int, result: TxnResult, now_ms: int) -> None:
        self.candidacy.on_result(txn_id, result, now_ms)
        if not self.txn_pipeline.on_result(txn_id, result, self.candidacy.elected_at):
            self.candidacy.depose(now_ms)
        self._turn(now_ms)

    def on_txn_ambiguous(self, txn_id: int, now_ms: int) -> None:
        self.candidacy.on_ambiguous(txn_id, now_ms)
        self.txn_pipeline.on_ambiguous(txn_id, now_ms)
        self._turn(now_ms)

    def on_txn_refused(self, txn_id: int, reason: str, now_ms: int) -> None:
        self.candidacy.on_refused(txn_id, now_ms)
        self.txn_pipeline.on_refused(txn_id, reason, now_ms)
        self._turn(now_ms)

    def on_control_connected(self, node_id: int, broker_epoch: int, now_ms: int) -> None:
        link = self.links.find(node_id, broker_epoch)
        if link is not None:
            self.links.on_connected(link)
        self._turn(now_ms)

    def on_control_disconnected(self, node_id: int, broker_epoch: int, now_ms: int) -> None:
        link = self.links.find(node_id, broker_epoch)
        if link is not None:
            self.links.on_disconnected(link)
        self._turn(now_ms)

    def on_control_response(self, node_id: int, broker_epoch: int, response: ControlResponse, now_ms: int) -> None:
        link = self.links.find(node_id, broker_epoch)
        if link is not None:
            if response.error_code == ErrorCode.STALE_CONTROLLER_EPOCH:
                self.candidacy.depose(now_ms)
            elif response.error_code == ErrorCode.STALE_BROKER_EPOCH:
                self.links.on_refused(link, response.sequence, now_ms)
            else:
                was_unaware = self.links.is_unaware(link)
                electable = self.links.on_response(link, response, now_ms)
                self._elections.look_at(electable)
                if was_unaware and not self.links.is_unaware(link):
                    self._elections.add_waiting()
                self._deletions_due = True
                self._drains_due |= bool(electable)
        self._turn(now_ms)

    def on_peer_gone(self, node_id: int, broker_epoch: int, now_ms: int) -> None:
        """A logstore was connected, and now no process listens at its addresses: do not wait for its lease to end."""
        link = self.links.find(node_id, broker_epoch)
        registered = self.image.logstores.get(node_id)
        if self._active and link is not None and link.known_alive and not link.connected and registered is not None:
            self._effects.append(RevokeLease(registered.lease))
        self._turn(now_ms)

    def on_subscribed(self, subscriber_id: int, role: Role, pod_id: str, now_ms: int) -> None:
        """The id is chosen by the shell and never reused."""
        self._follow_election(now_ms)
        if self._active:
            self.subscriptions.by_id[subscriber_id] = Subscriber(role, pod_id)
            update = full_update(self.image, self.candidacy.controller_epoch)
            self._effects += self.subscriptions.first_publication(update, subscriber_id)
        else:
            self._effects.append(EndSubscription(subscriber_id))
        self._turn(now_ms)

    def on_acknowledged(self, subscriber_id: int, applied_revision: int, now_ms: int) -> None:
        subscriber = self.subscriptions.by_id.get(subscriber_id)
        if subscriber is not None:
            subscriber.applied_revision = applied_revision
        self._turn(now_ms)

    def on_unsubscribed(self, subscriber_id: int, now_ms: int) -> None:
        self.subscriptions.by_id.pop(subscriber_id, None)
        self._turn(now_ms)

    def on_request(self, request_id: int, request: MembershipRequest | OperatorRequest, now_ms: int) -> None:
        """Answered by one Respond or Reject with the same id, which is chosen by the shell and never reused."""
        self._follow_election(now_ms)
        if not self._active:
            self._effects.append(Reject(request_id, untouched=True))
        elif isinstance(request, ShareQuotasRequest):
            self._effects.append(Respond(request_id, self._share_quotas(request, now_ms)))
            return
        elif isinstance(request, AlterPartitionRequest):
            self._effects += self._isr_changes.enqueue(request_id, request, now_ms)
        elif isinstance(request, ControlledShutdownRequest):
            self._effects += self._shutdowns.enqueue(request_id, request, now_ms)
            self._elections.restart()
        else:
            self._effects += self._requests.enqueue(request_id, request, now_ms)
        self._turn(now_ms)

    def _share_quotas(self, request: ShareQuotasRequest, now_ms: int) -> ShareQuotasResponse:
        shares = self._quota_shares
        rates = [shares.report(request.gateway_id, use, use.limit, now_ms) for use in request.uses]
        shares.forget_unused(now_ms)
        return ShareQuotasResponse(rates)

    def on_tick(self, now_ms: int) -> None:
        """Time has passed: call at `next_deadline_ms`, at the latest."""
        self._turn(now_ms)

    def next_deadline_ms(self, now_ms: int) -> int | None:
        """Return when `on_tick` has something to do; None: not until the next event."""
        dues = [self.candidacy.due_ms(now_ms)]
        if self._active:
            dues += [self.txn_pipeline.due_ms(), self.links.due_ms(now_ms), self._tidy_ms]
            dues += [self._requests.due_ms(), self._isr_changes.due_ms(), self._shutdowns.due_ms()]
            dues.append(self._tokens.due_ms())
            if self._balances:
                dues.append(self._balance_ms)
            if self.has_more_to_look_at:
                dues.append(now_ms)
        return min((due for due in dues if due is not None), default=None)

    def take_outputs(self) -> Outputs:
        """Everything that the inputs since the last call have come to."""
        effects, self._effects = self._effects, []
        return Outputs(effects)

    @property
    def has_more_to_look_at(self) -> bool:
        """Whether the last turn ended with decisions left to make."""
        return self.txn_pipeline.idle and (self._requests.has_more or not self._elections.are_done)

    @property
    def settings(self) -> ElectionSettings:
        return self._settings

    @property
    def _balances(self) -> bool:
        """Whether preferred leaders are elected automatically."""
        return self._settings.auto_leader_rebalance_enable and self.image.balance is None

    def _turn(self, now_ms: int) -> None:
        """Decide what follows from all that is known; ends every `on_*`."""
        self._follow_election(now_ms)
        if self._active:
            self._effects += self.links.reconnect_unresponsive(now_ms)
            self._effects += self.links.repeat_failed(self.candidacy.controller_epoch, now_ms)
            if now_ms >= self._tidy_ms:
                self._tidy_ms = now_ms + _TIDY_MS
                self._members_due = True
            self._plan_balance(now_ms)
            self._write(now_ms)
            self._tell_everything_where_due(now_ms)
            self._effects += self._requests.answers(now_ms)
            self._effects += self._isr_changes.expire(now_ms)
            self._effects += self._shutdowns.answers(now_ms, elections_are_done=self._elections.are_done)
        self.reported_health.follow_own(now_ms)
        self._looks_left = PARTITIONS_PER_LOOK

    def _follow_election(self, now_ms: int) -> None:
        claim = self.candidacy.step(now_ms)
        if claim is not None:
            self._effects.append(claim)
        if self.candidacy.active and not self._active:
            self._active = True
            self._effects.append(ActiveChanged(True, self.candidacy.controller_epoch))
            self._quota_shares.begin(now_ms)
            self._unclaimed_due = True
            self._balance_ms = now_ms + self._settings.leader_imbalance_check_interval_ms
            self._begin_again()
        elif self._active and not self.candidacy.active:
            self._resign()

    def _resign(self) -> None:
        self._active = False
        self.txn_pipeline.abandon()
        self._on_committed = None
        self._balance.clear()
        self._liveness.forget_stops()
        self._effects += self._requests.abandon()
        self._effects += self._isr_changes.abandon()
        self._effects += self._shutdowns.abandon()
        self._effects += self.links.close_all()
        self._effects += [EndSubscription(subscriber_id) for subscriber_id in self.subscriptions.by_id]
        self.subscriptions.by_id.clear()
        self._effects.append(ActiveChanged(False, self.candidacy.controller_epoch))

    def _begin_again(self) -> None:
        """The image was reloaded: send the full state on every stream and subscription."""
        self._elections.restart()
        self._members_due = self._deletions_due = self._drains_due = True
        self.subscriptions.published_revision = self.image.revision
        self.links.tell_again()
        self._effects += self.links.follow_registrations()
        if self.subscriptions.by_id:
            self._effects += self.subscriptions.publications(full_update(self.image, self.candidacy.controller_epoch))

    def _follow(self, changes: Changes, now_ms: int) -> None:
        """Pass on the changes of a batch."""
        if changes.logstores:
            self._effects += self.links.follow_registrations()
        if changes.balance:
            self._balance.clear()
            self._balance_ms = now_ms
        if changes.everything:
            self._begin_again()
            return
        if changes.logstores or changes.broker_configs or changes.drains:
            self._elections.restart()
        else:
            self._elections.look_at(changes.topics)
        self._members_due |= changes.members
        self._deletions_due = True
        self._drains_due |= self.drains.may_go_on_after(changes)
        controller_epoch = self.candidacy.controller_epoch
        if changes.logstores:
            self._effects += self.links.ask_after_disks(controller_epoch, now_ms)
        update = incremental_update(self.image, changes, controller_epoch)
        of_logstores = None if update is None else without_gateways_own(update)
        self._effects += self.links.tell_changes(changes, of_logstores, controller_epoch, now_ms)
        if update is not None:
            self._looks_left -= sum([len(topic.partitions) for topic in update.topics])
            self.subscriptions.published_revision = update.revision
            self._effects += self.subscriptions.publications(update)

    def _write(self, now_ms: int) -> None:
        """Complete the Txn in flight, if the image shows it; begin the next."""
        if self.txn_pipeline.take_committed() and self._on_committed is not None:
            self._effects += self._on_committed()
            self._on_committed = None
        if self.txn_pipeline.idle:
            writes = self._next_writes(now_ms)
            if writes:
                self._effects.append(self.txn_pipeline.submit(writes, self.candidacy.elected_at))
        else:
            again = self.txn_pipeline.retry(self.candidacy.elected_at, now_ms)
            if again is not None:
                self._effects.append(again)

    def _next_writes(self, now_ms: int) -> Sequence[Write]:
        live = self._liveness.current()
        elections = self._elections.next_writes(live, self._looks_left)
        if elections or not self._elections.are_done:
            return elections
        looked_through = self._liveness.end_suspicion()
        if looked_through:
            return looked_through
        # ISR changes never wait for a job of many Txns, and never stop one from progressing.
        if self._isr_changes_went_last:
            return self._next_step() or self._next_isr_changes(live) or self._writes_that_can_wait(now_ms)
        return self._next_isr_changes(live) or self._next_step() or self._writes_that_can_wait(now_ms)

    def _next_isr_changes(self, live: Liveness) -> Sequence[Write]:
        writes, answers = self._isr_changes.next_writes(live)
        self._effects += answers
        if writes:
            self._on_committed = self._isr_changes.on_committed
        self._isr_changes_went_last = bool(writes)
        return writes

    def _next_step(self) -> Sequence[Write]:
        writes, answers = self._requests.next_step()
        self._effects += answers
        if writes:
            self._on_committed = self._requests.on_step_committed
        self._isr_changes_went_last = False
        return writes

    def _plan_balance(self, now_ms: int) -> None:
        settings = self._settings
        if self._balances and now_ms >= self._balance_ms:
            self._balance_ms = now_ms + settings.leader_imbalance_check_interval_ms
            self._balance.extend(self._leaders_on_demand.balance(settings.leader_imbalance_per_broker_percentage))

    def _writes_that_can_wait(self, now_ms: int) -> Sequence[Write]:
        while self._balance:
            elections = self._balance.popleft()()
            if elections:
                return elections
        if self._drains_due:
            moves = self.drains.next_moves()
            if moves:
                return moves
            self._drains_due = False
        if raised := raise_format(self.image):
            return raised
        if expired := self._tokens.expired(now_ms):
            return expired
        if self._members_due:
            noted = note_members(self.image, self._wall_ms())
            if noted:
                return noted[:OPERATIONS_MAX]
            self._members_due = False
        if self._deletions_due:
            for topic_id in self.image.deletions:
                if not self.links.deletion_waits_for(topic_id) and not unreadable_chunks(self.image, topic_id):
                    return finish_deletion(self.image, topic_id)[:OPERATIONS_MAX]
            self._deletions_due = False
        if self._unclaimed_due and knows_all_claims(self.image):
            unclaimed = remove_unclaimed_chunks(self.image)
            if unclaimed:
                return unclaimed[:OPERATIONS_MAX]
            self._unclaimed_due = False
        return []

    def _tell_everything_where_due(self, now_ms: int) -> None:
        if not self._elections.are_done:
            return
        new_links = self.links.waiting_for_everything(now_ms)
        if new_links:
            controller_epoch = self.candidacy.controller_epoch
            update = without_gateways_own(full_update(self.image, controller_epoch))
            for link in new_links:
                self._effects += self.links.tell_everything(link, update, controller_epoch, now_ms)
