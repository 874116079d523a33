"""The controller election: the active controller is the one whose lease holds the election key.

A claim is one Txn that creates the absent key, increments the controller epoch and records the new term; if its answer
is lost, the image shows the outcome. A lease is not a lock: the local deadline only says when to stop; the fence is
that every write compares the create revision of the key. State that a newer version has written, or that a restore is
writing, is not claimed at all; neither is state that can't be continued because a value that everything depends on
can't be read.
"""

from __future__ import annotations

from collections.abc import Callable

from barnabas import __version__
from barnabas.cluster.cluster_version import refusal
from barnabas.cluster.features import NEW_CLUSTER_LEVELS, finalized_features
from barnabas.cluster.keys import (
    ClusterRecord,
    ControllerEpochRecord,
    ControllerRegistration,
    encode_record,
    encode_registration,
)
from barnabas.cluster.operation_records import ControllerTermRecord
from barnabas.ports.etcd import NO_LEASE, Put, Txn, TxnResult, absent, created_at, modified_at
from barnabas_controller.core.state.effects import SubmitTxn
from barnabas_controller.core.state.image import ControllerImage
from barnabas_controller.core.state.unknown_state import unreadable_foundation

RETRY_MS = 100
RETRY_REFUSED_MS = 1000


class Candidacy:
    def __init__(
        self,
        image: ControllerImage,
        registration: ControllerRegistration,
        next_txn_id: Callable[[], int],
        new_cluster_id: Callable[[], str],
        wall_ms: Callable[[], int],
    ) -> None:
        self._image = image
        self._wall_ms = wall_ms
        self._registration = registration
        self._next_txn_id = next_txn_id
        self._new_cluster_id = new_cluster_id
        self._lease = NO_LEASE
        self._lease_deadline_ms = 0
        self._claim_txn_id = 0
        # The revision of a claim that etcd has granted and the image does not show yet; 0: none.
        self._granted_revision = 0
        self._not_before_ms = 0
        self.active = False
        # While active: the create revision of the election key, and the epoch that came with it.
        self.elected_at = 0
        self.controller_epoch = 0

    def on_lease(self, lease: int, deadline_ms: int) -> None:
        """A lease was granted or renewed; its deadline counts from when the request was sent."""
        self._lease = lease
        self._lease_deadline_ms = deadline_ms

    def depose(self, now_ms: int) -> None:
        """React to something that only a newer controller can have caused: stop, and look again a little later."""
        self.active = False
        self._not_before_ms = now_ms + RETRY_MS

    def on_result(self, txn_id: int, result: TxnResult, now_ms: int) -> None:
        if txn_id != self._claim_txn_id:
            return
        if result.succeeded:
            self._granted_revision = result.revision
        else:
            self._forget_claim(now_ms + RETRY_MS)

    def on_ambiguous(self, txn_id: int, now_ms: int) -> None:
        """No read-back is needed: if this claim was applied, the next one fails its compares, and the image shows
        it.
        """
        if txn_id == self._claim_txn_id:
            self._forget_claim(now_ms + RETRY_MS)

    def on_refused(self, txn_id: int, now_ms: int) -> None:
        if txn_id == self._claim_txn_id:
            self._forget_claim(now_ms + RETRY_REFUSED_MS)

    def _forget_claim(self, not_before_ms: int) -> None:
        self._claim_txn_id = 0
        self._granted_revision = 0
        self._not_before_ms = not_before_ms

    def due_ms(self, now_ms: int) -> int | None:
        """Return when `step` next has something to do, even if no event arrives."""
        if now_ms >= self._lease_deadline_ms:
            return now_ms if self.active else None
        if self.active:
            return self._lease_deadline_ms
        claimable = self._image.loaded and (self._image.election is None or self._ours()) and self._is_known_version()
        return self._not_before_ms if claimable and not self._claim_txn_id else None

    def _ours(self) -> bool:
        election = self._image.election
        return election is not None and election.lease == self._lease != NO_LEASE

    def _is_known_version(self) -> bool:
        return refusal(self._image.version, __version__) is None and not unreadable_foundation(self._image)

    def step(self, now_ms: int) -> SubmitTxn | None:
        """Compare with the image. Return the claim to submit, if it is time for one."""
        image = self._image
        election = image.election
        ours = self._ours()
        # A controller that continued without reading the epoch would write a wrong one.
        if now_ms >= self._lease_deadline_ms or (self.active and (not ours or unreadable_foundation(image))):
            self.active = False
        if now_ms >= self._lease_deadline_ms or self.active or not image.loaded or not self._is_known_version():
            return None
        if self._granted_revision and image.revision >= self._granted_revision:
            granted = image.controller_epoch
            self._forget_claim(now_ms)
            if election is not None and ours:
                self.active = True
                self.elected_at = election.epoch
                self.controller_epoch = granted
                return None
        if self._claim_txn_id or now_ms < self._not_before_ms or (election is not None and not ours):
            return None
        return self._claim(ours)

    def _claim(self, ours: bool) -> SubmitTxn:
        """Claim the key; if this controller already holds it (a claim's answer was lost, a lease came back), claim only
        the epoch.
        """
        image, keys = self._image, self._image.keys
        record, epoch, history_key = self._registration, image.controller_epoch + 1, keys.operations.controller_history
        term = ControllerTermRecord(epoch, record.controller_id, record.address, self._wall_ms())
        compares = [
            modified_at(keys.controller_epoch, image.mod_revision(keys.controller_epoch)),
            modified_at(history_key, image.mod_revision(history_key)),
            # A restore may have begun, or a newer version may have written, since the image was last looked at.
            modified_at(keys.version, image.mod_revision(keys.version)),
        ]
        success = [
            Put(keys.controller_epoch, encode_record(ControllerEpochRecord(epoch))),
            Put(history_key, encode_record(image.controller_history.followed_by(term))),
        ]
        if image.election is not None and ours:
            compares.append(created_at(keys.election, image.election.epoch))
        else:
            compares.append(absent(keys.election))
            success.append(Put(keys.election, encode_registration(self._registration), self._lease))
        if not image.cluster_id:
            compares.append(absent(keys.cluster))
            success.append(Put(keys.cluster, encode_record(ClusterRecord(self._new_cluster_id()))))
            features = finalized_features(1, NEW_CLUSTER_LEVELS)
            success.append(Put(keys.finalized_features, encode_record(features)))
        self._claim_txn_id = self._next_txn_id()
        return SubmitTxn(self._claim_txn_id, Txn(tuple(compares), tuple(success)))
