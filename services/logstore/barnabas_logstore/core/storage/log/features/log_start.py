"""The beginning of a log: it moves forward by DeleteRecords and by retention, and whole segments below it go.

What holds after a crash is what holds in Kafka. The log start is written down now and then
(`log-start-offset-checkpoint`), not with each move, since an operator also deletes records to make room on a full disk,
where nothing more can be written. So after a crash it may be back where it was at the last checkpoint, or at the first
segment that is still there: records whose deletion was answered may be seen again, never records with a gap between
them, as the files of each segment are gone for good before those of the next one are touched.
"""

from __future__ import annotations

from barnabas.wire.errors import ErrorCode
from barnabas_logstore.core.storage.log.state.log_state import LogState
from barnabas_logstore.core.storage.segment.rolling import DELETE

UPTO_HIGH_WATERMARK = -1


def delete_records(state: LogState, offset: int, high_watermark: int) -> int | ErrorCode:
    """Move the log start to `offset`; where it is now, which may be further on already."""
    if state.error is not None:
        return ErrorCode.KAFKA_STORAGE_ERROR
    if DELETE not in state.config.cleanup_policy.split(","):
        return ErrorCode.POLICY_VIOLATION
    wanted = high_watermark if offset == UPTO_HIGH_WATERMARK else offset
    if not 0 <= wanted <= high_watermark:
        return ErrorCode.OFFSET_OUT_OF_RANGE
    state.move_log_start(wanted)
    return state.log_start_offset
