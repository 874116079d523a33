"""The one Txn in flight: fenced, never repeated unread, and done when the image shows it.

Every Txn compares the election key's create revision and the mod revision of each key that it changes. And every Txn
compares the mod revision of the controller epoch's key and puts that key again, unchanged: so the writes of all
controllers form one chain, in which a Txn has one place or none. (The targets' revisions alone would not do: a key that
was created and deleted again is absent, as it was for a creation that has been on its way all the while.)

So when the image shows that key changed, while the election key is ours, the Txn in flight is applied, whatever became
of its answer. Where the answer is lost the key is read back, under the same fence: still as it was means that the Txn
may be sent again, for if the lost one arrives after all, one of the two fails its compares.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from barnabas.cluster.keys import ControllerEpochRecord, encode_record
from barnabas.ports.etcd import Delete, Get, Put, Txn, TxnResult, created_at, modified_at
from barnabas_controller.core.effects import SubmitTxn
from barnabas_controller.core.image import ControllerImage
from barnabas_controller.core.writes import Write

RETRY_AMBIGUOUS_MS = 100
RETRY_REFUSED_MS = 1000


class _Step(Enum):
    SENT = "sent"
    READ_BACK_DUE = "read back due"
    READING_BACK = "reading back"
    REPEAT_DUE = "repeat due"
    # etcd has it; the image will.
    DECIDED = "decided"


@dataclass(slots=True)
class _Flight:
    txn: Txn
    txn_id: int
    step: _Step
    # The mod revision of the controller epoch's key before; it has another one when the Txn is applied.
    link: int
    due_ms: int = 0


class Journal:
    def __init__(self, image: ControllerImage) -> None:
        self._image = image
        self._flight: _Flight | None = None
        self._last_txn_id = 0
        # Why etcd refuses our writes at present; empty while it does not.
        self.refusal = ""

    @property
    def idle(self) -> bool:
        return self._flight is None

    def next_txn_id(self) -> int:
        """Unique in this process; also for the Txns that claim the election."""
        self._last_txn_id += 1
        return self._last_txn_id

    def submit(self, writes: Sequence[Write], elected_at: int) -> SubmitTxn:
        assert self._flight is None, "one Txn in flight"
        assert writes
        keys, link = self._image.keys, self._link()
        txn = Txn(
            compares=(
                created_at(keys.election, elected_at),
                modified_at(keys.controller_epoch, link),
                *(modified_at(write.key, self._image.mod_revision(write.key)) for write in writes),
            ),
            success=(
                Put(keys.controller_epoch, encode_record(ControllerEpochRecord(self._image.controller_epoch))),
                *(Delete(write.key) if write.value is None else Put(write.key, write.value) for write in writes),
            ),
            failure=(Get(keys.election),),
        )
        self._flight = _Flight(txn, self.next_txn_id(), _Step.SENT, link)
        return SubmitTxn(self._flight.txn_id, txn)

    def _link(self) -> int:
        return self._image.mod_revision(self._image.keys.controller_epoch)

    def abandon(self) -> None:
        """No longer ours to finish: whatever becomes of it, the next image tells."""
        self._flight = None

    def take_committed(self) -> bool:
        """True once when the image shows the Txn, which makes the journal idle again."""
        flight = self._flight
        if flight is None or self._link() == flight.link:
            return False
        self._flight = None
        self.refusal = ""
        return True

    def on_result(self, txn_id: int, result: TxnResult, elected_at: int) -> bool:
        """False: the election key is not ours any more, so that nothing may be written."""
        flight = self._flight
        if flight is None or flight.txn_id != txn_id:
            return True
        if not result.succeeded:
            election = result.reads[0]
            if not election or election[0].create_revision != elected_at:
                return False
            # The fence holds, so an earlier try of this very Txn has been applied.
            flight.step = _Step.DECIDED
        elif flight.step is _Step.SENT:
            flight.step = _Step.DECIDED
        else:
            found = result.reads[0]
            unchanged = (found[0].mod_revision if found else 0) == flight.link
            flight.step = _Step.REPEAT_DUE if unchanged else _Step.DECIDED
        return True

    def on_ambiguous(self, txn_id: int, now_ms: int) -> None:
        flight = self._flight
        if flight is not None and flight.txn_id == txn_id:
            flight.step = _Step.READ_BACK_DUE
            flight.due_ms = now_ms + RETRY_AMBIGUOUS_MS

    def on_refused(self, txn_id: int, reason: str, now_ms: int) -> None:
        """etcd certainly did nothing (a full database, say): try again, later."""
        flight = self._flight
        if flight is not None and flight.txn_id == txn_id:
            self.refusal = reason
            flight.step = _Step.REPEAT_DUE
            flight.due_ms = now_ms + RETRY_REFUSED_MS

    def due_ms(self) -> int | None:
        """When `retry` next has something to do."""
        flight = self._flight
        if flight is None or flight.step not in (_Step.READ_BACK_DUE, _Step.REPEAT_DUE):
            return None
        return flight.due_ms

    def retry(self, elected_at: int, now_ms: int) -> SubmitTxn | None:
        """The read-back or the repetition that is due."""
        flight, due_ms = self._flight, self.due_ms()
        if flight is None or due_ms is None or now_ms < due_ms:
            return None
        flight.txn_id = self.next_txn_id()
        if flight.step is _Step.REPEAT_DUE:
            flight.step = _Step.SENT
            return SubmitTxn(flight.txn_id, flight.txn)
        flight.step = _Step.READING_BACK
        keys = self._image.keys
        fence = created_at(keys.election, elected_at)
        read = Txn((fence,), (Get(keys.controller_epoch),), (Get(keys.election),))
        return SubmitTxn(flight.txn_id, read)
