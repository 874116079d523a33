"""Random sets of ACLs, and questions about them, as lines of `tests/compat/java/Authorizations.java`.

Names come from a small alphabet, so that they are prefixes of each other, and most questions are about names that some
ACL covers, or nearly.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from random import Random

from barnabas.cluster.acls import ANY, MATCH, Acl, AclFilter, Operation, PatternType, PermissionType, ResourceType

PRINCIPALS = ("User:alice", "User:bob", "User:CN=a,OU=b", "User:c:d", "Robot:alice", "User:ANONYMOUS")
HOSTS = ("127.0.0.1", "10.0.0.2", "0:0:0:0:0:0:0:1", "2001:db8:0:0:0:0:0:a0")
TYPES = tuple(ResourceType)
_ALPHABET = "ab-.*"


@dataclass(slots=True)
class Question:
    """One of a principal, or a filter."""

    kind: str
    """As the first field of a line: "?", "any" or "filter"."""
    principal: str = ""
    host: str = ""
    operation: Operation = Operation.READ
    resource_type: ResourceType = ResourceType.TOPIC
    name: str = ""
    acl_filter: AclFilter = field(default_factory=AclFilter)

    def line(self) -> str:
        if self.kind == "filter":
            return _line("filter", *_filter_fields(self.acl_filter))
        fields = [self.principal, self.host, str(int(self.operation)), str(int(self.resource_type))]
        return _line(self.kind, *fields, *([self.name] if self.kind == "?" else []))


@dataclass(slots=True)
class Scene:
    """ACLs that are created, questions about all, then some that are deleted, and questions about the rest."""

    super_users: frozenset[str]
    allows_without_acls: bool
    acls: list[Acl]
    questions: list[Question]
    removed: list[Acl]
    questions_after: list[Question]

    def lines(self) -> Iterator[str]:
        yield _line("new", ";".join(sorted(self.super_users)), str(self.allows_without_acls).lower())
        for acl in self.acls:
            yield _line("+", *acl_fields(acl))
        yield from (question.line() for question in self.questions)
        for acl in self.removed:
            yield _line("-", *acl_fields(acl))
        yield from (question.line() for question in self.questions_after)


def scene(random: Random) -> Scene:
    count = random.choice((0, 1, 2, 3, 5, 8, 13, 30, 80, 300))
    types = random.sample(TYPES, random.randint(1, 3))
    denials = random.choice((0.0, 0.1, 0.3, 0.6))
    acls = list(dict.fromkeys(_acl(random, types, denials) for _ in range(count)))
    removed = random.sample(acls, len(acls) // 3)
    left = [acl for acl in acls if acl not in set(removed)]
    return Scene(
        frozenset(random.sample(PRINCIPALS, random.choice((0, 0, 0, 1, 2)))),
        random.random() < 0.3,
        acls,
        [_question(random, acls, types) for _ in range(30)],
        removed,
        [_question(random, left, types) for _ in range(15)],
    )


def _name(random: Random) -> str:
    return "".join(random.choices(_ALPHABET, weights=(5, 4, 2, 1, 1), k=random.choice((1, 1, 2, 2, 3, 3, 4, 6, 12))))


def _acl(random: Random, types: list[ResourceType], denials: float) -> Acl:
    pattern_type = random.choice(tuple(PatternType))
    name = "*" if pattern_type is PatternType.LITERAL and random.random() < 0.15 else _name(random)
    return Acl(
        random.choice(types),
        pattern_type,
        name,
        random.choice((*PRINCIPALS, "User:*", "User:*")),
        random.choice((*HOSTS, "*", "*", "*")),
        random.choice(tuple(Operation)),
        PermissionType.DENY if random.random() < denials else PermissionType.ALLOW,
    )


def _question(random: Random, acls: list[Acl], types: list[ResourceType]) -> Question:
    kind = random.choices(("?", "any", "filter"), weights=(12, 2, 1))[0]
    if kind == "filter":
        return Question(kind, acl_filter=_filter(random, acls))
    # About some ACL, mostly: otherwise nearly all would be denied for the same reason.
    about = random.choice(acls) if acls and random.random() < 0.8 else None
    principal, host = random.choice(PRINCIPALS), random.choice(HOSTS)
    operation = random.choice(tuple(each for each in Operation if each is not Operation.ALL))
    resource_type, name = random.choice(types), _name(random)
    if about is not None:
        resource_type = ResourceType(about.resource_type)
        name = about.resource_name if about.resource_name != "*" else name
        if about.pattern_type == PatternType.PREFIXED or random.random() < 0.2:
            name += random.choice(("", "a", "-b", "."))
        if random.random() < 0.1:
            name = name[:-1] or name
        if about.principal in PRINCIPALS and random.random() < 0.8:
            principal = about.principal
        if about.host in HOSTS and random.random() < 0.8:
            host = about.host
        if about.operation != Operation.ALL and random.random() < 0.6:
            operation = Operation(about.operation)
        elif random.random() < 0.5:
            operation = random.choice((Operation.DESCRIBE, Operation.DESCRIBE_CONFIGS))
    return Question(kind, principal, host, operation, resource_type, name)


def _filter(random: Random, acls: list[Acl]) -> AclFilter:
    about = random.choice(acls) if acls else Acl(2, 3, "a", "User:alice", "*", 3, 3)

    def maybe(value: int) -> int:
        return value if random.random() < 0.4 else ANY

    name = random.choice((None, about.resource_name, about.resource_name + "a", "a", "*"))
    return AclFilter(
        maybe(about.resource_type),
        random.choice((ANY, MATCH, PatternType.LITERAL, PatternType.PREFIXED)),
        name,
        random.choice((None, None, about.principal)),
        random.choice((None, None, about.host)),
        maybe(about.operation),
        maybe(about.permission_type),
    )


def acl_fields(acl: Acl) -> list[str]:
    return [
        str(int(acl.resource_type)),
        str(int(acl.pattern_type)),
        acl.resource_name,
        acl.principal,
        acl.host,
        str(int(acl.operation)),
        str(int(acl.permission_type)),
    ]


def _filter_fields(asked: AclFilter) -> list[str]:
    texts = ["~" if text is None else text for text in (asked.resource_name, asked.principal, asked.host)]
    return [
        str(int(asked.resource_type)),
        str(int(asked.pattern_type)),
        *texts,
        str(int(asked.operation)),
        str(int(asked.permission_type)),
    ]


def _line(*fields: str) -> str:
    assert not any("\t" in each or "\n" in each for each in fields)
    return "\t".join(fields) + "\n"
