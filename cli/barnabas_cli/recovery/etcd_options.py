"""The command line options that select an etcd."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

import click

from barnabas_cli.local.etcd import local_etcd_files
from barnabas_cli.local.layout import HOST, ClusterDirectory

Command = TypeVar("Command", bound=Callable[..., Any])


@dataclass(slots=True, frozen=True)
class EtcdOptions:
    """How to reach etcd. No endpoints means the local cluster's etcd. The TLS fields are paths of PEM files, empty
    without TLS.
    """

    endpoints: tuple[str, ...]
    prefix: str
    tls_authority: str = ""
    tls_certificate: str = ""
    tls_key: str = ""
    user: str = ""
    password: str = field(default="", repr=False)

    def with_local_etcd(self, directory: ClusterDirectory) -> EtcdOptions:
        """Return the options for the local cluster's etcd. Raises LayoutError."""
        layout = directory.require_layout()
        files = local_etcd_files(directory, layout)
        endpoints = (f"{HOST}:{layout.etcd_client_port}",)
        return EtcdOptions(endpoints, self.prefix, files.authority, files.certificate, files.key)


def etcd_options(command: Command) -> Command:
    """Add the options; the command gets them as `etcd`, an EtcdOptions."""

    def gather(**values: Any) -> Any:
        endpoints, prefix = values.pop("etcd_endpoints"), values.pop("etcd_prefix")
        authority, certificate, key = (values.pop(f"etcd_tls_{name}") for name in ("authority", "certificate", "key"))
        user, password = values.pop("etcd_user"), values.pop("etcd_password")
        if bool(user) != bool(password):
            raise click.UsageError("--etcd-user and --etcd-password are needed together")
        if not prefix.endswith("/"):
            raise click.BadParameter("must end with /", param_hint="--etcd-prefix")
        if bool(certificate) != bool(key) or (certificate and not authority):
            raise click.UsageError("--etcd-tls-certificate needs --etcd-tls-key and --etcd-tls-authority")
        options = EtcdOptions(endpoints, prefix, authority, certificate, key, user, password)
        return command(**values, etcd=options)

    gather.__name__, gather.__doc__ = command.__name__, command.__doc__
    gather.__click_params__ = getattr(command, "__click_params__", [])  # type: ignore[attr-defined]
    decorated: Any = gather
    for option in (
        click.option(
            "--etcd-password",
            default="",
            envvar="BARNABAS_ETCD_PASSWORD",
            help="Password of that user; better by BARNABAS_ETCD_PASSWORD, since others see command lines.",
        ),
        click.option(
            "--etcd-user", default="", envvar="BARNABAS_ETCD_USER", help="User of an etcd with authentication."
        ),
        click.option(
            "--etcd-tls-key",
            default="",
            envvar="BARNABAS_ETCD_TLS_KEY",
            metavar="PEM",
            help="Private key of the client certificate.",
        ),
        click.option(
            "--etcd-tls-certificate",
            default="",
            envvar="BARNABAS_ETCD_TLS_CERTIFICATE",
            metavar="PEM",
            help="Client certificate, if etcd requires one.",
        ),
        click.option(
            "--etcd-tls-authority",
            default="",
            envvar="BARNABAS_ETCD_TLS_AUTHORITY",
            metavar="PEM",
            help="CA certificate that signed etcd's; enables TLS.",
        ),
        click.option("--etcd-prefix", default="/barnabas/", show_default=True, help="Prefix of the cluster's keys."),
        click.option(
            "--etcd",
            "etcd_endpoints",
            multiple=True,
            metavar="HOST:PORT",
            help="A member of the etcd to use instead of the local cluster's; repeatable.",
        ),
    ):
        decorated = option(decorated)
    return decorated  # type: ignore[no-any-return]
