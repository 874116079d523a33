"""What members of groups take errors for."""

from __future__ import annotations

from barnabas.wire.errors import ErrorCode

# The coordinator is another one, or not ready: it is looked for, and asked again.
NO_COORDINATOR = (
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.NOT_COORDINATOR,
)
# Of an answer about membership: the id is good, the generation is not.
JOIN_AGAIN = (ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.ILLEGAL_GENERATION)
