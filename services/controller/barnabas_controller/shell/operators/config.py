"""The keys of the operators' port."""

from __future__ import annotations

from typing import Final, Literal

import msgspec

from barnabas.cluster.access.operator_permissions import OperatorRole
from barnabas.runtime.configuration.service_config import ServiceConfig
from barnabas.runtime.pem_files import TlsFiles
from barnabas_controller.shell.operators.operator_tokens import TokenRules

LOOPBACK: Final = ("127.0.0.1", "localhost", "[::1]")


class OperatorsConfig(ServiceConfig, kw_only=True):
    """The base of the controller's configuration; a `__post_init__` of a subclass calls this one's."""

    # The operators' API, "host:port".
    operations_listeners: str = "127.0.0.1:9090"
    # The address advertised to operators; empty: the listener.
    operations_advertised_listeners: str = ""
    # How callers authenticate; empty: by certificate with an authority, by token with an issuer, else not at all, which
    # is possible on a loopback address only. "none" is possible everywhere.
    operations_authentication: Literal["", "none", "certificate", "token"] = ""
    # PEM files: the port's own certificate, and the authority of its callers' certificates.
    operations_tls_certificate: str = ""
    operations_tls_key: str = ""
    operations_tls_authority: str = ""
    operations_token_issuer: str = ""
    operations_token_audience: str = ""
    # The provider's keys: a file with a JWK set, or its https URL, and the authority of that URL's certificate.
    operations_token_jwks: str = ""
    operations_token_jwks_authority: str = ""
    operations_token_roles_claim: str = "roles"
    # Who has which role: names in a certificate, a token's subject, or its roles.
    operations_viewers: list[str] = msgspec.field(default_factory=lambda: ["viewer"])
    operations_operators: list[str] = msgspec.field(default_factory=lambda: ["operator"])
    operations_admins: list[str] = msgspec.field(default_factory=lambda: ["admin"])

    def __post_init__(self) -> None:
        super().__post_init__()
        host, separator, port = self.operations_listeners.rpartition(":")
        if not separator or not host or not port.isdigit():
            raise ValueError(f"operations.listeners={self.operations_listeners}: expected host:port")
        if bool(self.operations_tls_certificate) != bool(self.operations_tls_key):
            raise ValueError("operations.tls.certificate and operations.tls.key are needed together")
        if self.operations_tls_authority and not self.operations_tls_certificate:
            raise ValueError("operations.tls.authority needs operations.tls.certificate and operations.tls.key")
        self._check_authentication(host)

    def _check_authentication(self, host: str) -> None:
        """Raises ValueError."""
        how = self.authentication_of_operators
        if how == "certificate" and not self.operations_tls_authority:
            raise ValueError("operations.authentication=certificate needs operations.tls.authority")
        if how == "token":
            self.token_rules()
            if not self.operations_tls_certificate and host not in LOOPBACK:
                raise ValueError("operations.authentication=token needs operations.tls.certificate: tokens are secrets")
        if how == "none" and self.operations_authentication != "none" and host not in LOOPBACK:
            raise ValueError(
                f"operations.listeners={self.operations_listeners} is open to other hosts without authentication: "
                "set operations.tls.authority, operations.token.issuer, or operations.authentication=none"
            )

    @property
    def authentication_of_operators(self) -> Literal["none", "certificate", "token"]:
        if self.operations_authentication:
            return self.operations_authentication
        if self.operations_tls_authority:
            return "certificate"
        return "token" if self.operations_token_issuer else "none"

    def operations_tls(self) -> TlsFiles | None:
        """Return the port's files; without an authority callers show no certificate. None: no TLS."""
        if not self.operations_tls_certificate:
            return None
        is_asked_for = self.authentication_of_operators == "certificate"
        authority = self.operations_tls_authority if is_asked_for else ""
        return TlsFiles(authority, self.operations_tls_certificate, self.operations_tls_key)

    def token_rules(self) -> TokenRules:
        """Raises ValueError."""
        rules = TokenRules(
            self.operations_token_issuer,
            self.operations_token_audience,
            self.operations_token_jwks,
            self.operations_token_roles_claim,
            self.operations_token_jwks_authority,
        )
        try:
            rules.check()
        except ValueError as error:
            raise ValueError(
                f"operations.token.issuer, operations.token.audience, operations.token.jwks: {error}"
            ) from None
        return rules

    def names_by_role(self) -> dict[OperatorRole, frozenset[str]]:
        return {
            OperatorRole.VIEWER: frozenset(self.operations_viewers),
            OperatorRole.OPERATOR: frozenset(self.operations_operators),
            OperatorRole.ADMIN: frozenset(self.operations_admins),
        }

    def advertised_operations(self, bound_port: int) -> str:
        """Return the address for operators, once the listener is bound."""
        host = self.operations_listeners.rpartition(":")[0]
        return self.operations_advertised_listeners or f"{host}:{bound_port}"
