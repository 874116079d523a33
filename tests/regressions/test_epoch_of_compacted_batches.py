"""Recovery keeps the offset at which an epoch began also where compaction has removed its first batches.

It read the epochs back from the batches that were left, and an epoch seemed to have begun later than it had. But a
checkpoint that batches contradict gives way to them.
"""

from __future__ import annotations

from barnabas_logstore.core.storage.checkpoints import LEADER_EPOCH_CHECKPOINT
from tests.sim.disk_model import DiskModel
from tests.unit.logstore.storage.support import DIRECTORY, append, batch, new_log, reopen, settle

CHECKPOINT = f"{DIRECTORY}/{LEADER_EPOCH_CHECKPOINT}"
LOG = f"{DIRECTORY}/{0:020d}.log"


def with_epochs(checkpoint: bytes) -> DiskModel:
    """Batches of epoch 3 at 0 and 1, of epoch 5 at 2 and 3."""
    disk = DiskModel()
    log = new_log(disk)
    for epoch in (3, 3, 5, 5):
        append(log, batch(), leader_epoch=epoch)
    settle(disk, log)
    disk.replace_file(CHECKPOINT, checkpoint)
    return disk


def test_an_epoch_whose_first_batch_was_compacted_away_begins_where_it_did() -> None:
    disk = with_epochs(b"0\n2\n3 0\n5 2\n")
    size = disk.size(disk.open(LOG)) // 4
    content = disk.read_file(LOG)
    file = disk.open(LOG)
    disk.truncate(file, 0)
    disk.write_at(file, 0, [content[:size], content[3 * size :]])
    assert reopen(disk).log.leader_epochs.entries() == [(3, 0), (5, 2)]


def test_what_batches_contradict_is_not_believed() -> None:
    for checkpoint in (b"0\n2\n3 0\n7 2\n", b"0\n1\n3 0\n", b"0\n2\n3 0\n5 3\n", b"0\n3\n3 0\n5 2\n9 4\n"):
        assert reopen(with_epochs(checkpoint)).log.leader_epochs.entries() == [(3, 0), (5, 2)], checkpoint
