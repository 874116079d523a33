"""What the members of all groups of a logstore hold of what they joined with, by the host of their clients.

A client chooses the metadata of its join, up to 8 MiB, its group, and its session timeout, up to half an hour, and need
not stay connected for it. `group.max.size` counts members of one group. So the bytes are bounded for each host: a join
that is too much is refused as one of a full group, and members of other hosts do not notice. Thousands of consumers
behind one address have room, at tens of kilobytes each. What is loaded from a log is counted, never refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from barnabas_logstore.core.coordinator.groups.member import Member

MEMBER_BYTES_PER_HOST_MAX: Final = 128 << 20
MEMBER_BYTES: Final = 1_500
"""What a member takes beside its protocols."""
PROTOCOL_BYTES: Final = 150
"""What a protocol takes beside its metadata."""


class MemberBytes:
    __slots__ = ("_by_host",)

    def __init__(self) -> None:
        self._by_host: dict[str, int] = {}

    def of_host(self, client_host: str) -> int:
        return self._by_host.get(client_host, 0)

    def hold(self, member: Member) -> None:
        """It is a member from now on, or has other protocols."""
        self._change(member, _bytes_of(member.protocols))

    def release(self, member: Member) -> None:
        """It is gone. Does nothing if it is not counted any more."""
        self._change(member, 0)

    def has_room(self, client_host: str, protocols: Mapping[str, bytes], replaced: Member | None) -> bool:
        """Whether a join may come from this host, in place of what a member holds; none that shrinks is too much."""
        byte_count = _bytes_of(protocols)
        if replaced is not None:
            client_host = replaced.client_host
            byte_count -= replaced.held_bytes
        return byte_count <= 0 or self.of_host(client_host) + byte_count <= MEMBER_BYTES_PER_HOST_MAX

    def _change(self, member: Member, byte_count: int) -> None:
        total = self.of_host(member.client_host) + byte_count - member.held_bytes
        member.held_bytes = byte_count
        if total:
            self._by_host[member.client_host] = total
        else:
            self._by_host.pop(member.client_host, None)


def _bytes_of(protocols: Mapping[str, bytes]) -> int:
    return MEMBER_BYTES + sum(PROTOCOL_BYTES + len(metadata) for metadata in protocols.values())
