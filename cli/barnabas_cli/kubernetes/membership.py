"""A synchronous client of the controllers' Membership service for users and ACLs, with a gateway's certificate.

It needs no listener of clients and no user that is there already, so it works however clients authenticate.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, TypeVar

import grpc

from barnabas.cluster.acls import Acl, AclFilter, describe_acl
from barnabas.cluster.keys import Role
from barnabas.cluster.messages import CreateAclsRequest, DeleteAclsRequest
from barnabas.cluster.scram import AlterScramCredentialsRequest, ScramUser, UserScramCredential
from barnabas.runtime.inter_service.identity import ServiceIdentity
from barnabas.runtime.protobuf import to_proto
from barnabas.wire.errors import ErrorCode
from barnabas_cli.kubernetes.access import AccessChanges, AccessError
from barnabas_protos.controller.v1 import membership_pb2 as pb
from barnabas_protos.controller.v1.membership_pb2_grpc import MembershipStub

T = TypeVar("T")
_ACTIVE_IS_AT: Final = "barnabas-controller"
_TIMEOUT_MS: Final = 15_000
_PAUSE_S: Final = 1.0
_BATCH: Final = 500
# Another controller is active, or none is yet.
_TRIED_AGAIN: Final = (
    grpc.StatusCode.FAILED_PRECONDITION,
    grpc.StatusCode.UNAVAILABLE,
    grpc.StatusCode.DEADLINE_EXCEEDED,
)


class MembershipClient:
    """Use it as a context manager. Every change can be sent twice: the second time it changes nothing."""

    def __init__(self, address: str, identity: ServiceIdentity | None, wait_s: float) -> None:
        """`address`: host:port of any controller; `wait_s`: how long an active one is waited for."""
        self._address = self._active = address
        self._identity = identity
        self._wait_s = wait_s
        self._channel: grpc.Channel | None = None

    def __enter__(self) -> MembershipClient:
        return self

    def __exit__(self, *_: object) -> None:
        self._leave()

    def apply(self, changes: AccessChanges) -> Iterator[str]:
        """Send the changes; yield a line for each that the controller has made. Raises AccessError."""
        if changes.credentials:
            for each in self._alter([], changes.credentials):
                _check(each, f"user {each.user}")
                yield f"user {each.user}: set"
        for user in changes.removed_users:
            # In a request of its own: what is gone already must not keep the others.
            for each in self._alter([user], []):
                if each.error_code != int(ErrorCode.RESOURCE_NOT_FOUND):
                    _check(each, f"user {each.user}")
                yield f"user {each.user}: removed"
        for batch in _batches(changes.acls):
            message = to_proto(CreateAclsRequest(batch, _TIMEOUT_MS), pb.CreateAclsRequest)
            answer = self._ask(lambda stub: stub.CreateAcls, message)
            for acl, created in zip(batch, answer.results, strict=True):
                _check(created, describe_acl(acl))
        if changes.acls:
            yield f"{len(changes.acls)} ACLs: there"
        for batch in _batches(changes.removed_acls):
            filters = [_filter_of(acl) for acl in batch]
            removal = to_proto(DeleteAclsRequest(filters, _TIMEOUT_MS), pb.DeleteAclsRequest)
            removed = self._ask(lambda stub: stub.DeleteAcls, removal)
            for acl, deleted in zip(batch, removed.results, strict=True):
                _check(deleted, describe_acl(acl))
                yield f"ACL removed: {describe_acl(acl)}"

    def _alter(self, deletions: list[ScramUser], credentials: list[UserScramCredential]) -> Any:
        alteration = AlterScramCredentialsRequest(deletions, credentials, _TIMEOUT_MS)
        message = to_proto(alteration, pb.AlterScramCredentialsRequest)
        return self._ask(lambda stub: stub.AlterScramCredentials, message).results

    def _ask(self, method: Callable[[MembershipStub], Callable[..., T]], request: Any) -> T:
        """Return the active controller's answer. Raises AccessError."""
        deadline_s = time.monotonic() + self._wait_s
        while True:
            try:
                return method(MembershipStub(self._connected()))(request, timeout=2 * _TIMEOUT_MS / 1000)
            except grpc.RpcError as error:
                trailers = {each[0]: each[1] for each in error.trailing_metadata() or ()}  # type: ignore[index]
                named = trailers.get(_ACTIVE_IS_AT)
                details = " ".join((error.details() or error.code().name).split())
                if error.code() not in _TRIED_AGAIN or time.monotonic() > deadline_s:
                    raise AccessError(f"the controller at {self._active}: {details}") from None
                self._leave()
                is_elsewhere = isinstance(named, str) and named not in ("", self._active)
                self._active = str(named) if is_elsewhere else self._address
                if not is_elsewhere:
                    time.sleep(_PAUSE_S)

    def _connected(self) -> grpc.Channel:
        if self._channel is None:
            options: list[tuple[str, Any]] = [("grpc.enable_http_proxy", 0)]
            if self._identity is None:
                self._channel = grpc.insecure_channel(self._active, options=options)
            else:
                options += self._identity.channel_options(Role.CONTROLLER)
                self._channel = grpc.secure_channel(self._active, self._identity.channel_credentials(), options)
        return self._channel

    def _leave(self) -> None:
        if self._channel is not None:
            self._channel.close()
            self._channel = None


def _batches(acls: Sequence[Acl]) -> Iterator[list[Acl]]:
    for start in range(0, len(acls), _BATCH):
        yield list(acls[start : start + _BATCH])


def _filter_of(acl: Acl) -> AclFilter:
    """Return the filter that this ACL alone matches."""
    return AclFilter(
        acl.resource_type,
        acl.pattern_type,
        acl.resource_name,
        acl.principal,
        acl.host,
        acl.operation,
        acl.permission_type,
    )


def _check(result: Any, what: str) -> None:
    """Raises AccessError."""
    if result.error_code:
        raise AccessError(f"{what}: {result.error_message or f'error {result.error_code}'}")
