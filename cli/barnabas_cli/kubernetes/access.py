"""Users and ACLs of the chart's values: what is wanted, what an earlier version of the values brought, what changes.

    {"users": [{"name": "alice", "mechanisms": ["SCRAM-SHA-512"], "passwordFile": "/etc/barnabas-users/0/password"}],
     "acls": [{"principal": "User:alice", "resourceType": "TOPIC", "resourceName": "orders", "patternType": "PREFIXED",
               "operations": ["READ", "WRITE"], "host": "*", "permissionType": "ALLOW"}]}

What the values no longer have is removed if they brought it. Users and ACLs that others have created stay: the memory
of what was applied says which are the values' own.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

import msgspec

from barnabas.cluster.acls import Acl, Operation, PatternType, PermissionType, ResourceType, acl_problem
from barnabas.cluster.scram import (
    ITERATIONS_MIN,
    MECHANISMS_BY_NAME,
    ScramUser,
    UserScramCredential,
    credential_of,
    salted_password,
)

PASSWORD_BYTES_MAX: Final = 1024
_SALT_BYTES: Final = 24


class AccessError(Exception):
    """Users or ACLs that can't be applied, in one line."""


class WantedUser(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """A user of SCRAM, with the file that has the password."""

    name: str
    mechanisms: tuple[Literal["SCRAM-SHA-256", "SCRAM-SHA-512"], ...]
    password_file: str


class WantedAcl(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """One line of the values: an ACL for each of its operations. Names are Kafka's."""

    principal: str
    resource_type: str
    operations: tuple[str, ...]
    resource_name: str
    pattern_type: str = "LITERAL"
    host: str = "*"
    permission_type: str = "ALLOW"

    def acls(self) -> list[Acl]:
        """Raises AccessError."""
        try:
            found = [
                Acl(
                    ResourceType[self.resource_type],
                    PatternType[self.pattern_type],
                    self.resource_name,
                    self.principal,
                    self.host,
                    Operation[operation],
                    PermissionType[self.permission_type],
                )
                for operation in self.operations
            ]
        except KeyError as unknown:
            raise AccessError(f"ACL of {self.principal} on {self.resource_name}: unknown {unknown.args[0]}") from None
        for acl in found:
            if problem := acl_problem(acl):
                raise AccessError(f"ACL of {self.principal} on {self.resource_name}: {problem}")
        return found


class WantedAccess(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What the values have."""

    users: tuple[WantedUser, ...] = ()
    acls: tuple[WantedAcl, ...] = ()
    labels: dict[str, str] = msgspec.field(default_factory=dict)
    """Of the memory."""

    def applied(self) -> Applied:
        """Return the same without passwords. Raises AccessError."""
        users = {(user.name, MECHANISMS_BY_NAME[name].number) for user in self.users for name in user.mechanisms}
        return Applied(sorted(users), sorted({acl for each in self.acls for acl in each.acls()}))


class Applied(msgspec.Struct, frozen=True):
    """Users, by name and number of the mechanism, and ACLs that values have brought."""

    users: list[tuple[str, int]] = []
    acls: list[Acl] = []

    def with_all_of(self, other: Applied) -> Applied:
        """Return both: the memory while a change is under way, so that none is forgotten if it ends halfway."""
        return Applied(sorted({*self.users, *other.users}), sorted({*self.acls, *other.acls}))


@dataclass(slots=True, frozen=True)
class AccessChanges:
    credentials: list[UserScramCredential]
    removed_users: list[ScramUser]
    acls: list[Acl]
    removed_acls: list[Acl]


def access_changes(wanted: WantedAccess, before: Applied) -> AccessChanges:
    """Return what to send: all that is wanted, since others may have changed it, and what is no longer wanted.

    Raises AccessError, OSError.
    """
    now = wanted.applied()
    credentials = [
        _credential(user.name, mechanism, _password(user)) for user in wanted.users for mechanism in user.mechanisms
    ]
    removed_users = [ScramUser(*each) for each in before.users if each not in set(now.users)]
    removed_acls = [each for each in before.acls if each not in set(now.acls)]
    return AccessChanges(credentials, removed_users, now.acls, removed_acls)


def _password(user: WantedUser) -> str:
    """Return the password; a line break at the end of a file is none of it. Raises AccessError, OSError."""
    content = Path(user.password_file).read_bytes()
    password = content.decode(errors="replace").rstrip("\r\n")
    if not password or len(content) > PASSWORD_BYTES_MAX:
        raise AccessError(f"the password of {user.name} has 1 to {PASSWORD_BYTES_MAX} bytes")
    return password


def _credential(user: str, mechanism_name: str, password: str) -> UserScramCredential:
    mechanism, salt = MECHANISMS_BY_NAME[mechanism_name], secrets.token_bytes(_SALT_BYTES)
    keys = credential_of(mechanism, salted_password(mechanism, password, salt, ITERATIONS_MIN), salt, ITERATIONS_MIN)
    return UserScramCredential(user, mechanism.number, ITERATIONS_MIN, salt, keys.stored_key, keys.server_key)
