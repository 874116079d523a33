"""The log start: DeleteRecords and retention move it forward, and complete segments below it are deleted.

After a crash the same holds as in Kafka. The log start is written periodically (`log-start-offset-checkpoint`), not
with each move, since an operator also deletes records to free space on a full disk, where nothing more can be written.
So after a crash it may be back where it was at the last checkpoint, or at the first segment that still exists: records
whose deletion was answered may be visible again, but never records with a gap between them, because the files of each
segment are durably gone before those of the next one are touched.
"""

from __future__ import annotations

from barnabas.wire.errors import ErrorCode, Refused
from barnabas_logstore.core.storage.log.state.log_state import LogState

UPTO_HIGH_WATERMARK = -1


def delete_records(state: LogState, offset: int, high_watermark: int) -> int | Refused:
    """Move the log start to `offset`. Return where it is now, which may already be further on."""
    if state.error is not None:
        return Refused(ErrorCode.KAFKA_STORAGE_ERROR)
    if not state.config.is_deleted:
        return Refused(ErrorCode.POLICY_VIOLATION)
    wanted = high_watermark if offset == UPTO_HIGH_WATERMARK else offset
    if not 0 <= wanted <= high_watermark:
        return Refused(ErrorCode.OFFSET_OUT_OF_RANGE)
    state.move_log_start(wanted)
    return state.log_start_offset
