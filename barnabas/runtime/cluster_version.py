"""Check the cluster's version before using it."""

from __future__ import annotations

import asyncio
from typing import Final

from barnabas import __version__
from barnabas.cluster.cluster_version import VersionRecord, refusal
from barnabas.cluster.json_values import UnreadableValue
from barnabas.cluster.keys import Keys, decode_record
from barnabas.runtime.etcd import EtcdClient, EtcdUnavailable

_POLL_S: Final = 0.2


class VersionRefused(Exception):  # noqa: N818  (an outcome that ends the process with its one line)
    """This version must not use the cluster."""


async def check_cluster_version(etcd: EtcdClient, keys: Keys) -> int:
    """Return the mod revision of the version that was checked, 0 if there is no such key: Txns based on it compare
    that.

    Wait for etcd indefinitely. Raises VersionRefused.
    """
    while True:
        try:
            found = await etcd.get(keys.version)
        except EtcdUnavailable:
            await asyncio.sleep(_POLL_S)
            continue
        if found is None:
            return 0
        try:
            record = decode_record(keys, found.key, found.value)
        except UnreadableValue as error:
            raise VersionRefused(f"etcd's key {keys.version} can't be read ({error}): run a newer version") from None
        assert isinstance(record, VersionRecord)
        reason = refusal(record, __version__)
        if reason is not None:
            raise VersionRefused(reason)
        return found.mod_revision
