"""AlterClientQuotas: which changes of quotas are valid, and the writes that make them (KIP-546, KIP-612).

Rules and messages are those of Kafka's ClientQuotaControlManager: an entity is changed as a whole or not at all, and
what is removed need not exist.
"""

from __future__ import annotations

from barnabas.cluster.quotas.entities import (
    AlterClientQuotasRequest,
    QuotaAlteration,
    QuotaAlterationResult,
    client_quota,
    entity_of,
    entity_problem,
    quota_problem,
)
from barnabas.wire.errors import ErrorCode
from barnabas_controller.core.state.image import ControllerImage
from barnabas_controller.core.state.writes import Write, put
from barnabas_controller.core.topics.placement import Refused


def alter_client_quotas(
    image: ControllerImage, request: AlterClientQuotasRequest
) -> tuple[list[QuotaAlterationResult], list[Write]]:
    """Return a result for each alteration, and the writes; none if it is only to be validated."""
    results: list[QuotaAlterationResult] = []
    writes: dict[str, Write] = {}
    for alteration in request.alterations:
        try:
            write = _write(image, alteration)
        except Refused as refusal:
            results.append(QuotaAlterationResult(refusal.error_code, refusal.message))
            continue
        results.append(QuotaAlterationResult(ErrorCode.NONE))
        if write is not None:
            writes[write.key] = write
    return results, [] if request.validate_only else list(writes.values())


def _write(image: ControllerImage, alteration: QuotaAlteration) -> Write | None:
    """Return None if nothing changes. Raises Refused."""
    entity = entity_of((part.entity_type, part.entity_name) for part in alteration.entity)
    problem = entity_problem(entity)
    if problem:
        raise Refused(ErrorCode.INVALID_REQUEST, problem)
    key = image.keys.client_quota(entity)
    known = image.client_quotas.get(key)
    before = {} if known is None else known.values()
    after = dict(before)
    for change in alteration.changes:
        if change.remove:
            after.pop(change.key, None)
            continue
        problem = quota_problem(entity, change.key, change.value)
        if problem:
            raise Refused(ErrorCode.INVALID_REQUEST, problem)
        after[change.key] = change.value
    if after == before and key not in image.unreadable:
        return None
    return put(key, client_quota(entity, after)) if after else Write(key, None)
