"""Users of an etcd that knows its clients by the common names of their certificates, and what each may do there.

A service other than the controller reads three keys and writes its own registration. So its key, stolen, neither
changes what the controller has written nor reads credentials.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import grpc
import grpc.aio

from barnabas.cluster.keys import Keys, Role
from barnabas.ports.etcd import EtcdRefused, prefix_end
from barnabas.runtime.etcd.client import EtcdClient
from barnabas_protos.etcd.v1 import rpc_pb2 as pb

if TYPE_CHECKING:
    from barnabas_protos.etcd.v1.rpc_pb2_grpc import AuthAsyncStub

ROOT: Final = "root"
"""Etcd's own name of the user, and of the role, without which it enables no users."""
_READ: Final = pb.Permission.READ
_READ_AND_WRITE: Final = pb.Permission.READWRITE


@dataclass(slots=True, frozen=True)
class MemberUser:
    """`member_id` empty: any member of the role."""

    name: str
    role: Role
    member_id: str = ""

    def permissions(self, keys: Keys) -> list[pb.Permission]:
        if self.role is Role.CONTROLLER:
            return [_below(keys.prefix, _READ_AND_WRITE)]
        own = keys.registration(self.role, self.member_id)
        own_end = "" if self.member_id else prefix_end(own)
        return [
            pb.Permission(permType=_READ, key=keys.version.encode()),
            pb.Permission(permType=_READ, key=keys.cluster.encode()),
            # They follow it as a prefix.
            _below(keys.election, _READ),
            pb.Permission(permType=_READ_AND_WRITE, key=own.encode(), range_end=own_end.encode()),
        ]


async def limit_users(
    etcd: EtcdClient, keys: Keys, users: Iterable[MemberUser], administrator: str, root_password: str = ""
) -> None:
    """Have each user do what its role needs, `administrator` everything, and others nothing. Can be repeated.

    Without a password root can't log in. Raises EtcdUnavailable, EtcdRefused.
    """
    is_new = await _add_user(etcd, ROOT, root_password)
    if root_password and not is_new:
        change = pb.AuthUserChangePasswordRequest(name=ROOT, password=root_password)
        await etcd.administer(lambda auth, timeout_s: auth.UserChangePassword(change, timeout=timeout_s))
    await _add_user(etcd, administrator)
    for name in (ROOT, administrator):
        await _grant_role(etcd, name, ROOT)
    for user in users:
        await _add_role(etcd, user.name, user.permissions(keys))
        await _add_user(etcd, user.name)
        await _grant_role(etcd, user.name, user.name)
    await etcd.administer(lambda auth, timeout_s: auth.AuthEnable(pb.AuthEnableRequest(), timeout=timeout_s))


async def let_all_in(etcd: EtcdClient) -> None:
    """End all limits, as a user that may do everything. Raises EtcdUnavailable, EtcdRefused."""
    await etcd.administer(lambda auth, timeout_s: auth.AuthDisable(pb.AuthDisableRequest(), timeout=timeout_s))


def _below(prefix: str, permission: pb.Permission.Type.ValueType) -> pb.Permission:
    return pb.Permission(permType=permission, key=prefix.encode(), range_end=prefix_end(prefix).encode())


async def _add_role(etcd: EtcdClient, name: str, permissions: Iterable[pb.Permission]) -> None:
    role = pb.AuthRoleAddRequest(name=name)
    await _add(etcd, lambda auth, timeout_s: auth.RoleAdd(role, timeout=timeout_s))
    for permission in permissions:
        await _grant_permission(etcd, name, permission)


async def _grant_permission(etcd: EtcdClient, name: str, permission: pb.Permission) -> None:
    grant = pb.AuthRoleGrantPermissionRequest(name=name, perm=permission)
    await etcd.administer(lambda auth, timeout_s: auth.RoleGrantPermission(grant, timeout=timeout_s))


async def _add_user(etcd: EtcdClient, name: str, password: str = "") -> bool:
    options = pb.UserAddOptions(no_password=not password)
    user = pb.AuthUserAddRequest(name=name, password=password, options=options)
    return await _add(etcd, lambda auth, timeout_s: auth.UserAdd(user, timeout=timeout_s))


async def _grant_role(etcd: EtcdClient, name: str, role: str) -> None:
    grant = pb.AuthUserGrantRoleRequest(user=name, role=role)
    await etcd.administer(lambda auth, timeout_s: auth.UserGrantRole(grant, timeout=timeout_s))


async def _add(etcd: EtcdClient, add: Callable[[AuthAsyncStub, float], Awaitable[object]]) -> bool:
    """Return False if it was there."""
    try:
        await etcd.administer(add)
    except EtcdRefused as refused:
        cause = refused.__cause__
        if isinstance(cause, grpc.aio.AioRpcError) and cause.code() is grpc.StatusCode.FAILED_PRECONDITION:
            return False
        raise
    return True
