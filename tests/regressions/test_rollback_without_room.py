"""A rollback for which a full disk has no room waits before it is tried again."""

from __future__ import annotations

from barnabas.ports.disk import DiskErrorKind
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.offset_commit import OffsetCommitResponse
from barnabas_logstore.core.maintenance.full_disks import PROBE_MS
from tests.sim.disk_model import DiskModel, Fault
from tests.unit.logstore.service.group_host import GroupHost, commit_request, offsets_topic


def test_a_rollback_without_room_waits_before_it_is_tried_again() -> None:
    """It was begun again in the turn in which it failed: as fast as workers fail, as long as room lacked."""
    host = GroupHost(DiskModel())
    host.lead(offsets_topic())
    host.core.tick(0)
    rollback = Fault("truncate", ".log", DiskErrorKind.NO_SPACE, times=100)
    host.disk.faults += [Fault("write_at", ".log", DiskErrorKind.NO_SPACE), rollback]
    host.call(commit_request(42, None))
    host.settle()
    assert rollback.hits == 1
    rollback.times = 1
    for _ in range(3):
        host.later(PROBE_MS)
        host.settle()
    assert rollback.hits == 2
    request_id = host.call(commit_request(43, None))
    host.settle()
    response = host.answer_of(request_id)
    assert isinstance(response, OffsetCommitResponse)
    assert response.topics[0].partitions[0].error_code == ErrorCode.NONE
