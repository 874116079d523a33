"""Users and ACLs of the chart's values: what is sent, and what of it is removed later."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from barnabas.cluster.acls import Acl, Operation, PatternType, PermissionType, ResourceType, describe_acl
from barnabas.cluster.scram import ScramMechanism, ScramUser, credential_of, salted_password
from barnabas_cli.kubernetes.access import AccessError, Applied, WantedAccess, access_changes

READ: dict[str, Any] = {
    "principal": "User:alice",
    "resourceType": "TOPIC",
    "resourceName": "orders",
    "operations": ["READ", "WRITE"],
}


def wanted(path: Path, users: int = 1, acls: list[dict[str, Any]] | None = None) -> WantedAccess:
    (path / "password").write_text("secret\n")
    return msgspec.convert(
        {
            "users": [
                {"name": f"user-{n}", "mechanisms": ["SCRAM-SHA-512"], "passwordFile": str(path / "password")}
                for n in range(users)
            ],
            "acls": [READ] if acls is None else acls,
        },
        WantedAccess,
    )


def test_all_that_is_wanted_is_sent_each_time(tmp_path: Path) -> None:
    asked = wanted(tmp_path)
    changes = access_changes(asked, asked.applied())
    (credential,) = changes.credentials
    mechanism = ScramMechanism.SHA_512
    salted = salted_password(mechanism, "secret", credential.salt, credential.iterations)
    expected = credential_of(mechanism, salted, credential.salt, credential.iterations)
    assert credential.credential() == expected
    assert [describe_acl(each) for each in changes.acls] == [
        "ALLOW READ on TOPIC LITERAL orders to User:alice from *",
        "ALLOW WRITE on TOPIC LITERAL orders to User:alice from *",
    ]
    assert changes.removed_users == []
    assert changes.removed_acls == []


def test_what_the_values_no_longer_have_is_removed(tmp_path: Path) -> None:
    before = wanted(tmp_path, users=2).applied()
    changes = access_changes(wanted(tmp_path, users=1, acls=[READ | {"operations": ["READ"]}]), before)
    assert changes.removed_users == [ScramUser("user-1", ScramMechanism.SHA_512.number)]
    assert [each.operation for each in changes.removed_acls] == [Operation.WRITE]


def test_what_others_have_created_stays(tmp_path: Path) -> None:
    """The memory has only what values brought, so nothing else can be removed."""
    changes = access_changes(wanted(tmp_path, users=0, acls=[]), Applied())
    assert changes.removed_users == []
    assert changes.removed_acls == []


def test_a_run_that_ended_halfway_is_remembered_whole(tmp_path: Path) -> None:
    before, after = wanted(tmp_path, users=2).applied(), wanted(tmp_path, users=1, acls=[]).applied()
    between = before.with_all_of(after)
    assert access_changes(wanted(tmp_path, users=1, acls=[]), between).removed_acls == before.acls
    assert msgspec.json.decode(msgspec.json.encode(between), type=Applied) == between


@pytest.mark.parametrize(
    ("entry", "line"),
    [
        ({"operations": ["READ", "FLY"]}, "unknown FLY"),
        ({"resourceType": "CLUSTER"}, "The only valid name for the CLUSTER resource is kafka-cluster"),
        ({"principal": "alice"}, "it has no type, such as User:"),
        ({"resourceName": ""}, "Invalid empty resource name"),
    ],
)
def test_an_acl_that_cannot_be_created_is_one_line(tmp_path: Path, entry: dict[str, Any], line: str) -> None:
    with pytest.raises(AccessError, match=line):
        access_changes(wanted(tmp_path, acls=[READ | entry]), Applied())


@pytest.mark.parametrize("content", ["", "\n", "x" * 2000])
def test_a_password_that_cannot_be_used_is_one_line(tmp_path: Path, content: str) -> None:
    asked = wanted(tmp_path)
    (tmp_path / "password").write_text(content)
    with pytest.raises(AccessError, match="the password of user-0 has 1 to 1024 bytes"):
        access_changes(asked, Applied())


def test_defaults_are_kafkas() -> None:
    (acl,) = msgspec.convert({"acls": [READ | {"operations": ["ALL"]}]}, WantedAccess).applied().acls
    assert acl == Acl(
        ResourceType.TOPIC, PatternType.LITERAL, "orders", "User:alice", "*", Operation.ALL, PermissionType.ALLOW
    )
