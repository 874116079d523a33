"""How the commands reach the operators' API: TLS, a certificate or a token, from options, the environment or a file.

A file has properties, such as `barnabas up --secure` writes as `data/secrets/operators/admin.properties`:

    address=127.0.0.1:19094
    tls.authority=/…/ca.crt
    tls.certificate=/…/admin.pem
    tls.key=/…/admin.pem
    token.file=/…/token
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from barnabas.runtime.configuration.properties import parse_properties
from barnabas.runtime.pem_files import TlsFiles

if TYPE_CHECKING:
    import grpc

Command = TypeVar("Command", bound=Callable[..., Any])

# Ignore proxies from the environment: a service of the cluster is never reached through one.
_OPTIONS: Final = (("grpc.enable_http_proxy", 0), ("grpc.max_receive_message_length", 256 << 20))
_KEYS: Final = ("address", "tls.authority", "tls.certificate", "tls.key", "tls.server.name", "token.file")


class AccessError(Exception):
    """A file or an option that can't be used, in one line."""


@dataclass(slots=True, frozen=True)
class OperatorAccess:
    """Without an authority there is no TLS, without a token no header."""

    address: str = ""
    tls: TlsFiles = field(default_factory=lambda: TlsFiles(""))
    server_name: str = ""
    """The name that the server's certificate has to have; empty: the host of the first address."""
    token: str = field(default="", repr=False)

    def channel(self, address: str, first_address: str) -> grpc.Channel:
        """Return a channel to one of the controllers, all of which have the same name. Raises AccessError."""
        import grpc  # a fifth of a second, of which most commands have no use

        if not self.tls.authority:
            return grpc.insecure_channel(address, options=_OPTIONS)
        try:
            contents = [Path(path).read_bytes() if path else None for path in _paths(self.tls)]
        except OSError as error:
            raise AccessError(f"{error.filename}: {error.strerror}") from None
        authority, key, certificate = contents
        name = self.server_name or first_address.rpartition(":")[0].strip("[]")
        options = (*_OPTIONS, ("grpc.ssl_target_name_override", name))
        return grpc.secure_channel(address, grpc.ssl_channel_credentials(authority, key, certificate), options=options)

    @property
    def metadata(self) -> tuple[tuple[str, str], ...]:
        return (("authorization", f"Bearer {self.token}"),) if self.token else ()


def _paths(files: TlsFiles) -> tuple[str, str, str]:
    return files.authority, files.key, files.certificate


OPEN: Final = OperatorAccess()
"""In the clear, without authentication."""


def read_access(path: Path) -> OperatorAccess:
    """Read a file of properties. Raises AccessError."""
    try:
        properties = parse_properties(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise AccessError(f"{path}: {error}") from None
    unknown = sorted(properties.keys() - set(_KEYS))
    if unknown:
        raise AccessError(f"{path}: unknown key {unknown[0]}; there are {', '.join(_KEYS)}")
    return access_of(properties)


def access_of(properties: Mapping[str, str]) -> OperatorAccess:
    """Raises AccessError."""
    token_file = properties.get("token.file", "")
    try:
        token = Path(token_file).read_text().strip() if token_file else ""
    except OSError as error:
        raise AccessError(f"token.file={token_file}: {error.strerror}") from None
    names = ("tls.authority", "tls.certificate", "tls.key")
    authority, certificate, key = (properties.get(name, "") for name in names)
    if bool(certificate) != bool(key) or (certificate and not authority):
        raise AccessError("tls.certificate needs tls.key and tls.authority")
    files = TlsFiles(authority, certificate, key)
    return OperatorAccess(properties.get("address", ""), files, properties.get("tls.server.name", ""), token)


def access_options(command: Command) -> Command:
    """Add the options; the command gets `access`, an OperatorAccess, or None if none of them is given."""

    @functools.wraps(command)
    def gather(*args: Any, **values: Any) -> Any:
        path = values.pop("operator_config")
        given = {
            "address": values.pop("address"),
            **{name: values.pop(name.replace(".", "_")) for name in ("tls.authority", "tls.certificate", "tls.key")},
            "token.file": values.pop("token_file"),
        }
        properties = {name: value for name, value in given.items() if value}
        token = os.environ.get("BARNABAS_TOKEN", "")
        try:
            access = read_access(path) if path is not None else None
            if properties or token:
                own = access_of(properties)
                access = _combined(access or OPEN, own, token)
        except AccessError as error:
            raise click.UsageError(str(error)) from None
        return command(*args, access=access, **values)

    decorated: Any = gather
    for option in (
        click.option("--token-file", metavar="FILE", help="Bearer token.  [env var of the token: BARNABAS_TOKEN]"),
        click.option("--tls-key", metavar="PEM", help="Private key of the certificate."),
        click.option("--tls-certificate", metavar="PEM", help="Certificate to show the controller."),
        click.option("--tls-authority", metavar="PEM", help="CA of the controller's certificate; enables TLS."),
        click.option(
            "--operator-config",
            type=click.Path(exists=True, dir_okay=False, path_type=Path),
            envvar="BARNABAS_OPERATOR_CONFIG",
            metavar="FILE",
            help="Properties: address, tls.authority, tls.certificate, tls.key, tls.server.name, token.file.  "
            "[env var: BARNABAS_OPERATOR_CONFIG]",
        ),
        click.option(
            "--address",
            metavar="HOST:PORT",
            envvar="BARNABAS_CONTROLLER",
            help="The controllers of a remote cluster, separated by commas.  [env var: BARNABAS_CONTROLLER]",
        ),
    ):
        decorated = option(decorated)
    return decorated  # type: ignore[no-any-return]


def _combined(file: OperatorAccess, options: OperatorAccess, token: str) -> OperatorAccess:
    """Return the file's values with those of the options in their place."""
    return replace(
        file,
        address=options.address or file.address,
        tls=options.tls if options.tls.authority else file.tls,
        token=options.token or token or file.token,
    )
