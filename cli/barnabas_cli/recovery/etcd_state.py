"""Select an etcd, read the cluster's state from it, and write it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Final, TypeVar

import click

from barnabas import __version__
from barnabas.cluster.cluster_version import FORMAT, READERS_MIN, VersionRecord, refusal
from barnabas.cluster.json_values import UnreadableValue
from barnabas.cluster.keys import Keys, decode_record, encode_record
from barnabas.ports.etcd import (
    NO_LEASE,
    AmbiguousResult,
    Delete,
    EtcdRefused,
    Put,
    Snapshot,
    Txn,
    absent,
    modified_at,
    prefix_end,
)
from barnabas.runtime.clock import monotonic_ms
from barnabas.runtime.etcd import EtcdClient, EtcdUnavailable
from barnabas.runtime.etcd.authentication import EtcdUser
from barnabas.runtime.pem_files import TlsFiles
from barnabas_cli.local import ports, processes
from barnabas_cli.local.cluster import STOP_SECONDS_MAX, ClusterError, cluster_to_start, sole_command
from barnabas_cli.local.layout import HOST, ClusterDirectory
from barnabas_cli.local.services import Role
from barnabas_cli.local.supervision import supervisor_identity
from barnabas_cli.recovery.etcd_options import EtcdOptions
from barnabas_controller.state_txns import puts_by_txn

Result = TypeVar("Result")

_START_SECONDS_MAX: Final = 30.0
_POLL_SECONDS: Final = 0.05
_ATTEMPTS_MAX: Final = 10
_NAMES_MAX: Final = 5


class StateError(Exception):
    """The state in etcd was not read or written. The message says why and what to do."""


def ask_etcd(
    options: EtcdOptions, endpoints: tuple[str, ...], work: Callable[[EtcdClient], Awaitable[Result]]
) -> Result:
    """Call `work` with a new client and return its result. Raises StateError."""
    tls = TlsFiles(options.tls_authority, options.tls_certificate, options.tls_key) if options.tls_authority else None

    async def connected() -> Result:
        try:
            user = EtcdUser(options.user, options.password) if options.user else None
            etcd = EtcdClient(endpoints, monotonic_ms, tls, user=user)
        except OSError as error:
            raise StateError(str(error)) from None
        try:
            return await work(etcd)
        except EtcdUnavailable as error:
            raise StateError(f"etcd at {', '.join(endpoints)}: {error}") from None
        except EtcdRefused as error:
            raise StateError(f"etcd at {', '.join(endpoints)} refuses: {error}") from None
        finally:
            await etcd.close()

    return asyncio.run(connected())


@contextmanager
def local_etcd(directory: ClusterDirectory) -> Iterator[tuple[str, ...]]:
    """Yield the endpoints of the local cluster's etcd, which is started for the duration if it does not run. Raises
    ClusterError while any other service runs or is about to be restarted, LayoutError and EtcdMissingError.
    """
    with sole_command(directory):
        layout = directory.require_layout()
        supervisor = supervisor_identity(directory)
        if supervisor is not None and processes.is_alive(supervisor):
            raise ClusterError("the cluster is supervised: stop it first (barnabas down)")
        cluster = cluster_to_start(directory, layout, click.echo)
        running = [each.name for each in cluster.services if each.role is not Role.ETCD and cluster.is_alive(each)]
        if running:
            raise ClusterError(f"the cluster is up ({', '.join(running)}): stop it first (barnabas down)")
        etcd = cluster.service(Role.ETCD)
        identity = None if cluster.is_alive(etcd) else cluster.spawn(etcd)
        try:
            deadline = time.monotonic() + _START_SECONDS_MAX
            while not ports.accepts(layout.etcd_client_port):
                if time.monotonic() > deadline or not cluster.is_alive(etcd):
                    raise ClusterError(f"etcd does not start: see {directory.log_path(etcd.name)}")
                time.sleep(_POLL_SECONDS)
            yield (f"{HOST}:{layout.etcd_client_port}",)
        finally:
            if identity is not None:
                processes.stop([identity], STOP_SECONDS_MAX)
                directory.pid_path(etcd.name).unlink(missing_ok=True)


async def write_state(etcd: EtcdClient, keys: Keys, writes: Mapping[str, bytes], *, replace: bool) -> None:
    """Replace everything below the prefix with these keys; an interrupted write is never taken for a cluster. Raises
    StateError, EtcdUnavailable and EtcdRefused.

    Every write is fenced by the version record, which meanwhile says that a restore is in progress, and by the absence
    of an active controller.
    """
    found = await etcd.get_prefix(keys.prefix)
    _check(keys, found, replace=replace)
    restoring = encode_record(VersionRecord(FORMAT, READERS_MIN, __version__, restoring=True))
    seen = next((each.mod_revision for each in found.key_values if each.key == keys.version), 0)
    ours = await _put_version(etcd, keys, seen, restoring)
    fence = (modified_at(keys.version, ours), absent(keys.election))
    after_version = keys.version + "\0"
    clear = (Delete(keys.prefix, keys.version), Delete(after_version, prefix_end(keys.prefix)))
    await _repeat(etcd, Txn(fence, clear))
    for puts in puts_by_txn(writes):
        await _repeat(etcd, Txn(fence, puts))
    await _put_version(etcd, keys, ours, encode_record(VersionRecord(FORMAT, READERS_MIN, __version__)))


def _check(keys: Keys, found: Snapshot, *, replace: bool) -> None:
    leased = [each.key for each in found.key_values if each.lease != NO_LEASE]
    if leased:
        raise StateError(
            f"services are registered ({_some(leased)}): stop all of them first, and wait a few seconds if they were "
            "killed"
        )
    kept = [each for each in found.key_values if each.key != keys.version]
    version = next((each for each in found.key_values if each.key == keys.version), None)
    try:
        record = None if version is None else decode_record(keys, keys.version, version.value)
    except UnreadableValue as error:
        raise StateError(f"{keys.version} can't be read ({error}): use the version that wrote it") from None
    assert record is None or isinstance(record, VersionRecord)
    if record is not None and not record.restoring and (reason := refusal(record, __version__)) is not None:
        raise StateError(reason)
    if (kept or version is not None) and not replace:
        raise StateError(
            f"there is a cluster below {keys.prefix} already ({_some([each.key for each in found.key_values])}): "
            "--replace replaces it permanently"
        )


def _some(names: list[str]) -> str:
    return ", ".join(names[:_NAMES_MAX]) + (" …" if len(names) > _NAMES_MAX else "")


async def _put_version(etcd: EtcdClient, keys: Keys, seen_revision: int, value: bytes) -> int:
    """Write the version record and return its mod revision."""
    txn = Txn((modified_at(keys.version, seen_revision), absent(keys.election)), (Put(keys.version, value),))
    try:
        result = await etcd.txn(txn)
        if result.succeeded:
            return result.revision
    except AmbiguousResult:
        pass
    written = await etcd.get(keys.version)
    if written is None or written.value != value or written.mod_revision == seen_revision:
        raise StateError(
            "another process writes below the prefix: stop every service and every other restore, then try again"
        )
    return written.mod_revision


async def _repeat(etcd: EtcdClient, txn: Txn) -> None:
    """Repeat until it succeeds: repeating writes the same as long as the fence holds."""
    for _ in range(_ATTEMPTS_MAX):
        try:
            result = await etcd.txn(txn)
        except AmbiguousResult:
            await asyncio.sleep(_POLL_SECONDS)
            continue
        if not result.succeeded:
            raise StateError(
                "another process writes below the prefix: stop every service, then try again with --replace"
            )
        return
    raise StateError("etcd does not answer reliably: repair it, then try again with --replace")
