"""`kubernetes`: what the chart's jobs run inside a cluster: certificates in Secrets, users and ACLs of the values."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeVar

import click
import msgspec

from barnabas.cluster.access.service_permissions import DEFAULT_DOMAIN
from barnabas.runtime.pem_files import PemError, TlsFiles
from barnabas_cli.local.etcd import ETCD_ADMINISTRATOR
from barnabas_cli.recovery.etcd_options import EtcdOptions, etcd_options
from barnabas_cli.terminal import clear_errors

T = TypeVar("T")
_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)
_DIRECTORY = click.Path(path_type=Path)


@click.group()
def kubernetes() -> None:
    """Commands of the chart's jobs; they run in a pod with a service account."""


@kubernetes.command()
@click.argument("wanted", type=_FILE)
def certificates(wanted: Path) -> None:
    """Create the Secrets that the file WANTED names, and replace certificates that end within 30 days."""
    from barnabas_cli.kubernetes.api import KubernetesError, api_of_this_pod
    from barnabas_cli.kubernetes.certificates import WantedSecrets, ensure_secrets

    with clear_errors(KubernetesError, OSError, msgspec.DecodeError):
        secrets = _decoded(wanted, WantedSecrets)
        now = datetime.fromtimestamp(time.time(), UTC)
        changed = False
        for line in ensure_secrets(api_of_this_pod(), secrets, now):
            changed = True
            click.echo(line)
        if not changed:
            click.echo("nothing to do")


@kubernetes.command()
@click.argument("wanted", type=_FILE)
@click.option("--controller", required=True, metavar="HOST:PORT", help="Address of the controllers' own port.")
@click.option("--memory", required=True, metavar="CONFIGMAP", help="Where is remembered what was applied.")
@click.option("--tls", "tls_path", type=_DIRECTORY, metavar="DIRECTORY", help="A gateway's certificate.")
@click.option("--domain", default=DEFAULT_DOMAIN, show_default=True, help="inter.service.tls.domain.")
@click.option("--wait", "wait_s", default=300.0, show_default=True, metavar="SECONDS", help="For a controller.")
def access(wanted: Path, controller: str, memory: str, tls_path: Path | None, domain: str, wait_s: float) -> None:
    """Apply the users and ACLs of the file WANTED; remove those that it has no longer."""
    from barnabas.runtime.inter_service.identity import ServiceIdentity
    from barnabas_cli.kubernetes.access import AccessError, Applied, WantedAccess, access_changes
    from barnabas_cli.kubernetes.api import KubernetesError, api_of_this_pod
    from barnabas_cli.kubernetes.membership import MembershipClient

    with clear_errors(AccessError, KubernetesError, PemError, OSError, msgspec.DecodeError):
        objects, asked = api_of_this_pod(), _decoded(wanted, WantedAccess)
        present = objects.read("configmaps", memory)
        before = Applied() if present is None else msgspec.json.decode(present.data["applied.json"], type=Applied)
        changes, after = access_changes(asked, before), asked.applied()
        identity = None
        if tls_path is not None:
            files = TlsFiles(*(str(tls_path / name) for name in ("ca.crt", "tls.crt", "tls.key")))
            identity = ServiceIdentity(files, domain)
        # First all that may be there afterwards, in case that this ends halfway.
        objects.write("configmaps", memory, _memory(before.with_all_of(after)), asked.labels, present)
        with MembershipClient(controller, identity, wait_s) as client:
            for line in client.apply(changes):
                click.echo(line)
        objects.write("configmaps", memory, _memory(after), asked.labels, objects.read("configmaps", memory))


@kubernetes.command("etcd-users")
@etcd_options
@click.option("--limits/--no-limits", default=True, show_default=True, help="Whether a role may do only what it needs.")
@click.option("--wait", "wait_s", default=300.0, show_default=True, metavar="SECONDS", help="For etcd.")
def etcd_users(etcd: EtcdOptions, *, limits: bool, wait_s: float) -> None:
    """Set what each role may do in etcd, by the common name of its certificate; this caller, barnabas, everything."""
    from barnabas.cluster.keys import Keys, Role
    from barnabas.runtime.etcd import EtcdClient
    from barnabas.runtime.etcd.users import MemberUser, let_all_in, limit_users
    from barnabas_cli.recovery.etcd_state import StateError, ask_etcd

    async def work(client: EtcdClient) -> None:
        await client.version(timeout_ms=int(wait_s * 1000))
        if limits:
            users = [MemberUser(role.value, role) for role in Role]
            await limit_users(client, Keys(etcd.prefix), users, ETCD_ADMINISTRATOR)
        else:
            await let_all_in(client)

    with clear_errors(StateError):
        if not etcd.endpoints:
            raise click.UsageError("--etcd is needed")
        ask_etcd(etcd, etcd.endpoints, work)
    click.echo("each role may do in etcd what it needs" if limits else "etcd lets all in that have a certificate")


def _memory(applied: object) -> dict[str, bytes]:
    return {"applied.json": msgspec.json.encode(applied)}


def _decoded(path: Path, kind: type[T]) -> T:
    """Raises OSError, msgspec.DecodeError."""
    return msgspec.json.decode(path.read_bytes(), type=kind)
