"""What the configuration of every service has: etcd, and who the service is to the others."""

from __future__ import annotations

from collections.abc import Sequence

from barnabas.cluster.access.service_permissions import DEFAULT_DOMAIN
from barnabas.runtime.etcd import EtcdConfig
from barnabas.runtime.inter_service import identity
from barnabas.runtime.inter_service.identity import ServiceIdentity
from barnabas.runtime.metrics.security import MetricsSecurity
from barnabas.runtime.pem_files import TlsFiles, check_server_files


class ServiceConfig(EtcdConfig, kw_only=True):
    """The base of a service's own configuration; a `__post_init__` of a subclass calls this one's."""

    # PEM files; all three, or none: then services neither encrypt nor authenticate.
    inter_service_tls_authority: str = ""
    inter_service_tls_certificate: str = ""
    inter_service_tls_key: str = ""
    inter_service_tls_domain: str = DEFAULT_DOMAIN
    # The metrics endpoint: its PEM files, the authority of scrapers' certificates, and a file with a bearer token.
    metrics_tls_authority: str = ""
    metrics_tls_certificate: str = ""
    metrics_tls_key: str = ""
    metrics_token_file: str = ""
    # The port for probes: its PEM files, and the authority of the probes' certificates.
    health_tls_authority: str = ""
    health_tls_certificate: str = ""
    health_tls_key: str = ""

    def __post_init__(self) -> None:
        super().__post_init__()
        given = self.inter_service_tls
        if any(given.paths()) and len(given.paths()) != 3:
            raise ValueError("inter.service.tls.authority, .certificate and .key are needed together")
        if not self.inter_service_tls_domain:
            raise ValueError("inter.service.tls.domain is empty")
        self.metrics_security.check()
        check_server_files("health.tls", self.health_tls)

    @property
    def inter_service_tls(self) -> TlsFiles:
        return TlsFiles(
            self.inter_service_tls_authority, self.inter_service_tls_certificate, self.inter_service_tls_key
        )

    @property
    def metrics_security(self) -> MetricsSecurity:
        return MetricsSecurity(
            self.metrics_tls_authority, self.metrics_tls_certificate, self.metrics_tls_key, self.metrics_token_file
        )

    @property
    def health_tls(self) -> TlsFiles:
        return TlsFiles(self.health_tls_authority, self.health_tls_certificate, self.health_tls_key)

    def take_identity(self) -> None:
        """Give this process its identity, before its first server or channel. Raises PemError, which is an OSError."""
        take_identity_of(self.identity_arguments())

    def identity_arguments(self) -> Sequence[str]:
        """Return what a child process needs for `take_identity_of`; nothing without mutual TLS."""
        files = self.inter_service_tls
        if not files.authority:
            return ()
        return (files.authority, files.certificate, files.key, self.inter_service_tls_domain)


def take_identity_of(arguments: Sequence[str]) -> None:
    """Give this process the identity of its parent (`identity_arguments`). Raises PemError."""
    if arguments:
        authority, certificate, key, domain = arguments
        identity.use(ServiceIdentity(TlsFiles(authority, certificate, key), domain))
