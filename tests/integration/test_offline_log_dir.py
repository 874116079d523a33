"""A log directory that is lost while the logstore runs: the cluster learns which one, and the rest is still served."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from barnabas.cluster.keys import LogstoreRegistration, Role, decode_registration
from barnabas.runtime.etcd import EtcdClient
from tests.integration.test_logstore import KEYS, NODE_ID, Controller, Logstore, etcd, until

pytestmark = [pytest.mark.integration, pytest.mark.deep]
__all__ = ["etcd"]


async def test_the_registration_names_a_directory_that_is_lost(tmp_path: Path, etcd: tuple[str, EtcdClient]) -> None:
    sound, lost = tmp_path / "sound", tmp_path / "lost"
    logstore = Logstore(sound, *etcd)
    await logstore.start(log_dirs=f"{lost},{sound}")
    reported: list[LogstoreRegistration] = []

    async def names_a_directory() -> bool:
        found = await etcd[1].get(KEYS.registration(Role.LOGSTORE, str(NODE_ID)))
        assert found is not None
        assert found.create_revision == logstore.broker_epoch, "it is the registration that it was"
        registration = decode_registration(Role.LOGSTORE, found.value)
        assert isinstance(registration, LogstoreRegistration)
        reported.append(registration)
        return bool(registration.offline_log_dirs)

    assert not await names_a_directory()
    shutil.rmtree(lost)
    lost.touch()
    async with Controller(logstore) as controller:
        # New partitions go to the directory with the fewest: one of these to each.
        await controller.lead(0, partitions=2)
        await until(names_a_directory)
    assert reported[-1].offline_log_dirs == {str(lost): f"make directory {lost}/orders-0: ENOENT"}
    assert reported[-1].incarnation == reported[0].incarnation
    await logstore.close()
