"""The options that say which etcd is meant."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import click

Command = TypeVar("Command", bound=Callable[..., Any])


@dataclass(slots=True, frozen=True)
class EtcdOptions:
    """Where etcd is; no endpoints: that of the local cluster. Of TLS the paths of PEM files, empty without."""

    endpoints: tuple[str, ...]
    prefix: str
    tls_authority: str = ""
    tls_certificate: str = ""
    tls_key: str = ""


def etcd_options(command: Command) -> Command:
    """Adds the options; the command gets them as `etcd`, an EtcdOptions."""

    def gather(**values: Any) -> Any:
        endpoints, prefix = values.pop("etcd_endpoints"), values.pop("etcd_prefix")
        authority, certificate, key = (values.pop(f"etcd_tls_{name}") for name in ("authority", "certificate", "key"))
        if not prefix.endswith("/"):
            raise click.BadParameter("it has to end with /", param_hint="--etcd-prefix")
        if bool(certificate) != bool(key) or (certificate and not authority):
            raise click.UsageError("--etcd-tls-certificate goes with --etcd-tls-key and --etcd-tls-authority")
        options = EtcdOptions(endpoints, prefix, authority, certificate, key)
        return command(**values, etcd=options)

    gather.__name__, gather.__doc__ = command.__name__, command.__doc__
    gather.__click_params__ = getattr(command, "__click_params__", [])  # type: ignore[attr-defined]
    decorated: Any = gather
    for option in (
        click.option("--etcd-tls-key", default="", metavar="PEM", help="The certificate's key."),
        click.option("--etcd-tls-certificate", default="", metavar="PEM", help="Ours, where etcd asks for one."),
        click.option("--etcd-tls-authority", default="", metavar="PEM", help="Turns TLS on: who signed etcd's."),
        click.option(
            "--etcd-prefix", default="/barnabas/", show_default=True, help="What the cluster's keys begin with."
        ),
        click.option(
            "--etcd",
            "etcd_endpoints",
            multiple=True,
            metavar="HOST:PORT",
            help="A member of another etcd than the local cluster's; may be given several times.",
        ),
    ):
        decorated = option(decorated)
    return decorated  # type: ignore[no-any-return]
