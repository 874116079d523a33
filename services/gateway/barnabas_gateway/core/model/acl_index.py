"""AclIndex: ACLs by the resources that they are about, so that those of one resource are found without a search.

Literal patterns are found by name. Prefixed ones form a forest in which a prefix's parent is the longest other prefix
that it begins with. All that a name begins with are on one path from a leaf to a root; it starts at the greatest prefix
that is not greater than the name. So a lookup takes one binary search and then the patterns on that path.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable, Iterator
from typing import TypeAlias

from barnabas.cluster.acls import WILDCARD, Acl, PatternType

Entries: TypeAlias = dict[str, list[Acl]]
"""The ACLs of one pattern, by principal."""


class _Patterns:
    """The patterns of one resource type."""

    __slots__ = ("_parents", "_sorted", "literal", "prefixed")

    def __init__(self) -> None:
        self.literal: dict[str, Entries] = {}
        self.prefixed: dict[str, Entries] = {}
        self._sorted: list[str] = []
        """The prefixes."""
        self._parents: dict[str, str | None] | None = {}
        """None while it has to be built: at the first lookup after prefixes have come or gone."""

    def add(self, acl: Acl) -> None:
        patterns = self.literal if acl.pattern_type == PatternType.LITERAL else self.prefixed
        entries = patterns.get(acl.resource_name)
        if entries is None:
            entries = patterns[acl.resource_name] = {}
            if patterns is self.prefixed:
                insort(self._sorted, acl.resource_name)
                self._parents = None
        entries.setdefault(acl.principal, []).append(acl)

    def remove(self, acl: Acl) -> None:
        patterns = self.literal if acl.pattern_type == PatternType.LITERAL else self.prefixed
        entries = patterns[acl.resource_name]
        entries[acl.principal].remove(acl)
        if not entries[acl.principal]:
            del entries[acl.principal]
        if not entries:
            del patterns[acl.resource_name]
            if patterns is self.prefixed:
                del self._sorted[bisect_left(self._sorted, acl.resource_name)]
                self._parents = None

    def matching(self, name: str) -> Iterator[Entries]:
        """Yield the entries of every pattern that a resource of this name falls under."""
        entries = self.literal.get(name)
        if entries is not None:
            yield entries
        if name != WILDCARD:
            entries = self.literal.get(WILDCARD)
            if entries is not None:
                yield entries
        at = bisect_right(self._sorted, name)
        if at:
            parents = self._parents if self._parents is not None else self._link()
            prefix: str | None = self._sorted[at - 1]
            while prefix is not None:
                if name.startswith(prefix):
                    yield self.prefixed[prefix]
                prefix = parents[prefix]

    def _link(self) -> dict[str, str | None]:
        parents: dict[str, str | None] = {}
        path: list[str] = []
        for prefix in self._sorted:
            while path and not prefix.startswith(path[-1]):
                path.pop()
            parents[prefix] = path[-1] if path else None
            path.append(prefix)
        self._parents = parents
        return parents


class AclIndex:
    """All ACLs of the cluster. It holds each at most once."""

    __slots__ = ("_acls", "_types")

    def __init__(self) -> None:
        self._acls: dict[Acl, None] = {}
        self._types: dict[int, _Patterns] = {}

    def __len__(self) -> int:
        return len(self._acls)

    def __iter__(self) -> Iterator[Acl]:
        return iter(self._acls)

    def add(self, acl: Acl) -> None:
        if acl not in self._acls:
            self._acls[acl] = None
            self._types.setdefault(acl.resource_type, _Patterns()).add(acl)

    def remove(self, acl: Acl) -> None:
        if acl in self._acls:
            del self._acls[acl]
            self._types[acl.resource_type].remove(acl)

    def replace_all(self, acls: Iterable[Acl]) -> bool:
        """Hold these and no others. Return whether that is a change; the cost is that of the difference."""
        wanted = dict.fromkeys(acls)
        gone = [acl for acl in self._acls if acl not in wanted]
        new = [acl for acl in wanted if acl not in self._acls]
        for acl in gone:
            self.remove(acl)
        for acl in new:
            self.add(acl)
        return bool(gone or new)

    def matching(self, resource_type: int, name: str) -> Iterator[Entries]:
        """Yield, by principal, the ACLs of every pattern that this resource falls under."""
        patterns = self._types.get(resource_type)
        return patterns.matching(name) if patterns is not None else iter(())

    def of_principal(self, resource_type: int, principal: str) -> Iterator[Acl]:
        """Yield the ACLs on resources of this type that name exactly this principal."""
        patterns = self._types.get(resource_type)
        if patterns is not None:
            for named in (patterns.literal, patterns.prefixed):
                for entries in named.values():
                    yield from entries.get(principal, ())
