"""The identity of this process under mutual TLS: its certificate, and the roles of its peers by theirs.

A certificate of a service has its role as a DNS name, `logstore.barnabas.internal`, among its alternative names; the
part after the role is `inter.service.tls.domain`. A server reads the roles of a caller from the certificate that the
handshake has verified; a client accepts a server only if that has the name of the role that it wants to call. An
address proves nothing, so certificates do not depend on where a service runs.

A certificate may also name the members that it is for, by a URI such as `spiffe://barnabas.internal/logstore/1` (the
form of a SPIFFE ID, which no name in DNS is taken for). Then it may speak as those of that role alone; without one for
a role, as each.

A process has one identity: `use` sets it before the first server or channel, and all that `barnabas.runtime.rpc`
creates from then on uses it. None can be forgotten.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import grpc
import grpc.aio

from barnabas.cluster.access.service_permissions import member_uri
from barnabas.cluster.keys import Role
from barnabas.runtime.pem_files import Pem, ReloadedPem, TlsFiles

_NAMES: Final = "x509_subject_alternative_name"


@dataclass(slots=True, frozen=True)
class Certified:
    """What a caller's certificate says of it; nothing without one, or with one of another domain."""

    roles: frozenset[Role] = frozenset()
    members: frozenset[str] = frozenset()
    """The URIs of the members that it names."""
    domain: str = ""

    def is_member(self, role: Role, member_id: str) -> bool:
        """Return whether it may speak as that member (a logstore by its node id)."""
        if role not in self.roles:
            return False
        of_role = member_uri(self.domain, role, "")
        is_named = any(uri.startswith(of_role) for uri in self.members)
        return not is_named or member_uri(self.domain, role, member_id) in self.members


class ServiceIdentity:
    """What this process shows to others, and checks them by. The files are looked at before each handshake."""

    def __init__(self, files: TlsFiles, domain: str) -> None:
        """Raises PemError."""
        self._pem = ReloadedPem(files)
        self._role_by_name = {f"{role.value}.{domain}": role for role in Role}
        self._domain = domain

    @property
    def generation(self) -> int:
        """Goes up when the files are replaced: a channel of an earlier generation shows the earlier certificate."""
        self._pem.read()
        return self._pem.generation

    def server_credentials(self) -> grpc.ServerCredentials:
        """Return the credentials of a server that refuses clients without a certificate of the authority."""
        return reloading_server_credentials(self._pem, requires_certificate=True)

    def channel_credentials(self) -> grpc.ChannelCredentials:
        pem = self._pem.read()
        return grpc.ssl_channel_credentials(pem.authority, pem.key, pem.certificate)

    def channel_options(self, server: Role) -> tuple[tuple[str, str], ...]:
        """Return the options by which a channel accepts a server of that role alone."""
        return (("grpc.ssl_target_name_override", f"{server.value}.{self._domain}"),)

    def certified(self, auth_context: Mapping[str, Iterable[bytes]]) -> Certified:
        """Return what the certificate of a caller says."""
        names = [name.decode(errors="replace") for name in auth_context.get(_NAMES, ())]
        roles = frozenset([self._role_by_name[name] for name in names if name in self._role_by_name])
        members = frozenset([name for name in names if name.startswith(f"spiffe://{self._domain}/")])
        return Certified(roles, members, self._domain)


def reloading_server_credentials(pem: ReloadedPem, *, requires_certificate: bool) -> grpc.ServerCredentials:
    """Return credentials that follow their files: a handshake uses what they have at its time."""
    shown = pem.read()

    def fetch() -> grpc.ServerCertificateConfiguration | None:
        """None: unchanged. gRPC calls it before each handshake, on a thread of its own."""
        nonlocal shown
        now = pem.read()
        if now is shown:
            return None
        shown = now
        return _configuration(now)

    return grpc.dynamic_ssl_server_credentials(
        _configuration(shown),
        fetch,  # type: ignore[arg-type] # the stubs know no None
        requires_certificate,
    )


def _configuration(pem: Pem) -> grpc.ServerCertificateConfiguration:
    assert pem.key is not None
    assert pem.certificate is not None
    return grpc.ssl_server_certificate_configuration([(pem.key, pem.certificate)], pem.authority)


_identity: ServiceIdentity | None = None


def use(identity: ServiceIdentity | None) -> None:
    """Set the identity of this process; None: services neither encrypt nor authenticate."""
    global _identity
    _identity = identity


def current() -> ServiceIdentity | None:
    return _identity


def certified(context: grpc.aio.ServicerContext[Any, Any]) -> Certified | None:
    """Return what a caller's certificate says; None without mutual TLS, where what the caller says is believed."""
    return None if _identity is None else _identity.certified(context.auth_context())


def is_itself(caller: Certified | None, role: Role, member_id: str) -> bool:
    """Return whether a caller may speak as the member that its message names."""
    return caller is None or caller.is_member(role, member_id)


def generation() -> int:
    """Return which certificate a channel that is created now shows; 0 without mutual TLS."""
    return _identity.generation if _identity is not None else 0
