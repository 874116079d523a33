"""AlterUserScramCredentials: which changes of credentials are valid, and the writes that make them (KIP-554).

Rules and messages are those of Kafka's ScramControlManager: a user is changed as a whole or not at all. Deviation:
names and salts have bounds, since they are kept in etcd.
"""

from __future__ import annotations

from collections import Counter
from typing import Final

from barnabas.cluster.scram import (
    ITERATIONS_MAX,
    ITERATIONS_MIN,
    MECHANISMS_BY_NUMBER,
    AlterScramCredentialsRequest,
    ScramUser,
    ScramUserResult,
    UserScramCredential,
)
from barnabas.wire.errors import ErrorCode
from barnabas_controller.core.state.image import ControllerImage
from barnabas_controller.core.state.writes import Write, put
from barnabas_controller.core.topics.placement import Refused

NAME_LENGTH_MAX: Final = 1_000
SALT_BYTES_MAX: Final = 1_000
_TWICE: Final = "A user credential cannot be altered twice in the same request"


def alter_scram_credentials(
    image: ControllerImage, request: AlterScramCredentialsRequest
) -> tuple[list[ScramUserResult], list[Write]]:
    """Return a result for each user of the request, in order, and the writes."""
    changes: list[ScramUser | UserScramCredential] = [*request.deletions, *request.upsertions]
    times = Counter((each.user, each.mechanism) for each in changes)
    writes: dict[str, list[Write]] = {}
    refused: dict[str, Refused] = {}
    for each in changes:
        writes.setdefault(each.user, [])
        try:
            if times[each.user, each.mechanism] > 1:
                raise Refused(ErrorCode.DUPLICATE_RESOURCE, _TWICE)
            writes[each.user].append(_write(image, each))
        except Refused as refusal:
            refused.setdefault(each.user, refusal)
    results = [
        ScramUserResult(user, refused[user].error_code, refused[user].message)
        if user in refused
        else ScramUserResult(user, ErrorCode.NONE)
        for user in writes
    ]
    return results, [write for user, own in writes.items() if user not in refused for write in own]


def _write(image: ControllerImage, change: ScramUser | UserScramCredential) -> Write:
    """Raises Refused."""
    if not change.user:
        raise Refused(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Username must not be empty")
    if change.mechanism not in MECHANISMS_BY_NUMBER:
        raise Refused(ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism")
    key = image.keys.credentials.scram_credential(change.mechanism, change.user)
    if isinstance(change, ScramUser):
        if (change.user, change.mechanism) not in image.scram_credentials and key not in image.unreadable:
            raise Refused(ErrorCode.RESOURCE_NOT_FOUND, "Attempt to delete a user credential that does not exist")
        return Write(key, None)
    if change.iterations < ITERATIONS_MIN:
        raise Refused(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too few iterations")
    if change.iterations > ITERATIONS_MAX:
        raise Refused(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too many iterations")
    if len(change.user) > NAME_LENGTH_MAX or len(change.salt) > SALT_BYTES_MAX:
        raise Refused(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Username or salt is too long")
    return put(key, change)
