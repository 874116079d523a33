"""Back up the cluster's state in etcd to a file."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Final

import click

from barnabas import __version__
from barnabas.cluster.backup import Backup, BackupEntry, BackupHeader, encode_backup
from barnabas.cluster.cluster_version import VersionRecord, refusal
from barnabas.cluster.json_values import UnreadableValue
from barnabas.cluster.keys import ClusterRecord, Keys, decode_record
from barnabas.ports.etcd import NO_LEASE, Snapshot
from barnabas.runtime.clock import wall_ms
from barnabas_cli.local.layout import ClusterDirectory, LayoutError
from barnabas_cli.recovery.etcd_options import EtcdOptions
from barnabas_cli.recovery.etcd_state import StateError, ask_etcd

EXPECTED: Final = (StateError, LayoutError)


def save(directory: ClusterDirectory, file: str, etcd: EtcdOptions) -> None:
    """Save the state below `etcd.prefix` to `file`. Raises the errors in EXPECTED."""
    if file != "-" and Path(file).exists():
        raise StateError(f"{file} already exists: choose another name")
    etcd = etcd if etcd.endpoints else etcd.with_local_etcd(directory)
    snapshot = ask_etcd(etcd, etcd.endpoints, lambda client: client.get_prefix(etcd.prefix))
    try:
        content = encode_backup(_backup_of(snapshot, Keys(etcd.prefix)))
    except UnreadableValue as error:
        raise StateError(
            f"what is below {etcd.prefix} can't be read ({error}): use the version that wrote it"
        ) from None
    if file == "-":
        sys.stdout.buffer.write(content)
        return
    _write(Path(file), content)
    click.echo(f"saved {len(content)} bytes to {file}: the cluster's state as of revision {snapshot.revision}")


def take_backup(snapshot: Snapshot, prefix: str, cluster_id: str, taken_ms: int, written_by: str) -> Backup:
    """Read everything below the prefix at one revision."""
    entries = tuple(
        [BackupEntry(each.key[len(prefix) :], each.value) for each in snapshot.key_values if each.lease == NO_LEASE]
    )
    header = BackupHeader(cluster_id, prefix, snapshot.revision, taken_ms, written_by, len(entries))
    return Backup(header, entries)


def _backup_of(snapshot: Snapshot, keys: Keys) -> Backup:
    """Build the backup from a snapshot. Raises StateError if there is no cluster that this version can read."""
    values = {each.key: each.value for each in snapshot.key_values}
    if keys.cluster not in values:
        raise StateError(f"there is no cluster below {keys.prefix}: was it started with another --etcd-prefix?")
    if keys.version in values:
        version = decode_record(keys, keys.version, values[keys.version])
        assert isinstance(version, VersionRecord)
        reason = refusal(version, __version__)
        if reason is not None:
            raise StateError(reason)
    cluster = decode_record(keys, keys.cluster, values[keys.cluster])
    assert isinstance(cluster, ClusterRecord)
    return take_backup(snapshot, keys.prefix, cluster.cluster_id, wall_ms(), __version__)


def _write(path: Path, content: bytes) -> None:
    """Write the file completely and durably, or not at all, and for its owner alone: it has users' keys. Raises
    StateError.
    """
    temporary = path.with_name(f"{path.name}.tmp")
    try:
        temporary.unlink(missing_ok=True)
        with open(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        temporary.rename(path)
        directory = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)
    except OSError as error:
        raise StateError(f"{path} can't be written: {error.strerror}") from None
