"""Certificates of services, for tests."""

from __future__ import annotations

import time
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from barnabas.cluster.access.service_permissions import DEFAULT_DOMAIN
from barnabas.runtime.inter_service.identity import ServiceIdentity
from barnabas.runtime.pem_files import TlsFiles
from barnabas_cli.local.certificates import Authority, create_authority, issue

NOW = datetime.fromtimestamp(time.time(), UTC)


@dataclass(slots=True, frozen=True)
class Certificates:
    """An authority, and files of what it issues."""

    directory: Path
    authority: Authority

    def plain_files(self, common_name: str, *hosts: str) -> TlsFiles:
        """Write a certificate with a common name and these hosts."""
        (self.directory / "ca.crt").write_bytes(self.authority.pem)
        path = self.directory / f"{common_name}-plain.pem"
        path.write_bytes(issue(self.authority, common_name, hosts, NOW))
        return TlsFiles(str(self.directory / "ca.crt"), str(path), str(path))

    def files(self, *roles: str, domain: str = DEFAULT_DOMAIN, name: str = "", valid: bool = True) -> TlsFiles:
        """Write a certificate with these roles; again: another one in the same file."""
        (self.directory / "ca.crt").write_bytes(self.authority.pem)
        path = self.directory / f"{name or '-'.join(roles) or 'none'}.pem"
        hosts = tuple(f"{role}.{domain}" for role in roles)
        issued_at = NOW if valid else NOW - timedelta(days=4000)
        temporary = path.with_suffix(".new")
        temporary.write_bytes(issue(self.authority, "service", hosts, issued_at))
        temporary.replace(path)
        return TlsFiles(str(self.directory / "ca.crt"), str(path), str(path))

    def spoil(self, name: str) -> None:
        """Leave half of a file, as a writer does that does not replace it at once."""
        path = self.directory / f"{name}.pem"
        path.write_bytes(path.read_bytes()[:100])

    def identity(self, *roles: str, domain: str = DEFAULT_DOMAIN) -> ServiceIdentity:
        return ServiceIdentity(self.files(*roles, domain=domain), domain)


def certificates(directory: Path, name: str = "test") -> Certificates:
    directory.mkdir(exist_ok=True)
    return Certificates(directory, create_authority(name, NOW))
