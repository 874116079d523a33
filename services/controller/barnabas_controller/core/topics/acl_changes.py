"""CreateAcls and DeleteAcls: what is valid, what changes, and the writes that make it so.

Rules and messages are those of Kafka's AclControlManager. An ACL is a key of its own, so that creations and deletions
need not know of one another.
"""

from __future__ import annotations

from typing import Final

from barnabas.cluster.acls import Acl, acl_problem, filter_problem
from barnabas.cluster.messages import AclResult, CreateAclsRequest, DeleteAclsRequest, DeletedAcls
from barnabas.wire.errors import ErrorCode
from barnabas.wire.primitives import Steps
from barnabas_controller.core.state.image import ControllerImage
from barnabas_controller.core.state.writes import Write, put

DELETED_MAX: Final = 10_000
"""ACLs that one request may delete (Kafka's MAX_RECORDS_PER_USER_OP)."""
_ACLS_PER_STEP: Final = 100
"""ACLs that a filter is compared with at the cost of one element."""
_TOO_MANY: Final = f"Cannot remove more than {DELETED_MAX} acls in a single delete operation."


def create_acls(image: ControllerImage, request: CreateAclsRequest) -> tuple[list[AclResult], list[Write]]:
    """Return a result for each ACL of the request, and the writes of those that do not exist."""
    results: list[AclResult] = []
    writes: dict[str, Write] = {}
    for acl in request.acls:
        problem = acl_problem(acl)
        results.append(AclResult(ErrorCode.INVALID_REQUEST, problem) if problem else AclResult(ErrorCode.NONE))
        if not problem:
            key = image.keys.acl(acl)
            if key not in image.acls:
                writes[key] = put(key, acl)
    return results, list(writes.values())


def delete_acls(image: ControllerImage, request: DeleteAclsRequest) -> Steps[tuple[list[DeletedAcls], list[Write]]]:
    """Return what each filter of the request deletes, and the writes. An ACL may be named by several filters."""
    results: list[DeletedAcls] = []
    deleted: dict[str, Write] = {}
    acls = list(image.acls.items())
    for asked in request.filters:
        problem = filter_problem(asked)
        if problem:
            results.append(DeletedAcls(ErrorCode.INVALID_REQUEST, problem))
            continue
        matching: list[tuple[str, Acl]] = []
        for number, (key, acl) in enumerate(acls):
            if asked.matches(acl):
                matching.append((key, acl))
            if number % _ACLS_PER_STEP == 0:
                yield 1
        if len(deleted) + len(matching) > DELETED_MAX:
            results.append(DeletedAcls(ErrorCode.POLICY_VIOLATION, _TOO_MANY))
            continue
        results.append(DeletedAcls(ErrorCode.NONE, acls=[acl for _, acl in matching]))
        deleted.update((key, Write(key, None)) for key, _ in matching)
    return results, list(deleted.values())
