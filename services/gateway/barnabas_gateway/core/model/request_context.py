"""The client whose requests a connection carries: its principal, its address, and where it has connected to."""

from __future__ import annotations

from dataclasses import dataclass, field
from ipaddress import IPv6Address
from typing import Final, NamedTuple

ANY_NODE: Final = -1
"""The client has connected to the bootstrap address: it means the cluster, and no broker in particular."""
USER: Final = "User"
"""The type of every principal that a listener authenticates (`KafkaPrincipal.USER_TYPE`)."""


class Principal(NamedTuple):
    """Who a client is (`KafkaPrincipal`). Its text is that of ACLs, `super.users` and log lines: "User:alice"."""

    principal_type: str
    name: str

    def __str__(self) -> str:
        return f"{self.principal_type}:{self.name}"


ANONYMOUS: Final = Principal(USER, "ANONYMOUS")
"""The client of a listener that does not authenticate (`KafkaPrincipal.ANONYMOUS`)."""


@dataclass(slots=True, frozen=True)
class RequestContext:
    """The client and its connection. One per connection, and another one once the client is authenticated: nothing in
    it changes from request to request.
    """

    connection_id: int
    listener: str
    """The listener's name, as `listeners` has it."""
    peer: str
    """The client's address and port, as its socket reports them: "127.0.0.1:40000"."""
    principal: Principal = ANONYMOUS
    node_id: int = ANY_NODE
    """The broker whose own port the client has connected to."""
    is_token_authenticated: bool = False
    """Whether it has authenticated by a delegation token (`KafkaPrincipal.tokenAuthenticated`)."""
    address: str = field(init=False)
    """The client's address without its port, as Java writes it: what ACLs call the host."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "address", _address_of(self.peer))


def _address_of(peer: str) -> str:
    """Return the address of "address:port" in the form of Java's `InetAddress.getHostAddress`, which ACLs are compared
    with: IPv6 with all eight groups and without leading zeros, and an address that stands for one of IPv4 as that.
    """
    host = peer.rpartition(":")[0].strip("[]")
    if ":" not in host:
        return host
    address, percent, zone = host.partition("%")
    parsed = IPv6Address(address)
    if parsed.ipv4_mapped is not None:
        return str(parsed.ipv4_mapped)
    groups = [f"{int(group, 16):x}" for group in parsed.exploded.split(":")]
    return ":".join(groups) + percent + zone
