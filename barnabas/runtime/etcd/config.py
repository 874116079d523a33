"""The configuration of etcd: the same keys for all services."""

from __future__ import annotations

from typing import Annotated

import msgspec

from barnabas.runtime.clock import monotonic_ms
from barnabas.runtime.etcd.authentication import EtcdUser
from barnabas.runtime.etcd.client import EtcdClient
from barnabas.runtime.pem_files import TlsFiles


class EtcdConfig(msgspec.Struct, kw_only=True):
    """The base of a service's own configuration; a `__post_init__` of a subclass calls this one's."""

    etcd_endpoints: Annotated[list[str], msgspec.Meta(min_length=1)]
    etcd_prefix: str = "/barnabas/"
    # PEM files; an authority enables TLS, certificate and key are for an etcd that requires a client certificate.
    etcd_tls_authority: str = ""
    etcd_tls_certificate: str = ""
    etcd_tls_key: str = ""
    # For an etcd with authentication.
    etcd_user: str = ""
    etcd_password: str = ""

    def __post_init__(self) -> None:
        if not self.etcd_prefix.endswith("/"):
            raise ValueError(f"etcd.prefix={self.etcd_prefix}: must end with /")
        if bool(self.etcd_tls_certificate) != bool(self.etcd_tls_key):
            raise ValueError("etcd.tls.certificate and etcd.tls.key are needed together")
        if self.etcd_tls_certificate and not self.etcd_tls_authority:
            raise ValueError("etcd.tls.authority is needed with etcd.tls.certificate")
        if bool(self.etcd_user) != bool(self.etcd_password):
            raise ValueError("etcd.user and etcd.password are needed together")

    def etcd_client(self) -> EtcdClient:
        """Create it on the running event loop. Raises OSError if a PEM file can't be read."""
        files = TlsFiles(self.etcd_tls_authority, self.etcd_tls_certificate, self.etcd_tls_key)
        user = EtcdUser(self.etcd_user, self.etcd_password) if self.etcd_user else None
        return EtcdClient(self.etcd_endpoints, monotonic_ms, files if self.etcd_tls_authority else None, user=user)
