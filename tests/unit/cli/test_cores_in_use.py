"""Services that run other cores than if they were started now, with small programs that map a file as a binary."""

from __future__ import annotations

import json
import mmap
import os
import sys
from collections.abc import Iterator
from dataclasses import replace
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

import pytest

from barnabas.cores import COMPILED, INTERPRETED, LIBRARY, MANIFEST, VARIABLE, digest
from barnabas_cli.local import cluster as local_cluster
from barnabas_cli.local import cores_in_use
from barnabas_cli.local.cluster import ClusterError
from barnabas_cli.local.cores_in_use import libraries_of, library_to_take, runs_other_cores
from barnabas_cli.local.services import Role
from tests.unit.cli.test_local_cluster import ALL, LISTENER, Fake, wait_until_listening

SERVICE = (
    "import mmap, os, sys\n"
    "if os.path.exists(sys.argv[2]) and os.environ.get('BARNABAS_CORES') != 'interpreted':\n"
    "    kept = mmap.mmap(os.open(sys.argv[2], os.O_RDONLY), 0, mmap.MAP_PRIVATE, mmap.PROT_READ)\n"
    f"{LISTENER}"
)
"""A listener that maps a file, as the import of a binary does."""

WITH_CORES = [str(role) for role in Role if role is not Role.ETCD]


@pytest.fixture
def library(tmp_path: Path) -> Path:
    (tmp_path / "build").mkdir()
    return tmp_path / "build" / f"{LIBRARY}.so"


@pytest.fixture
def fake(tmp_path: Path, library: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Fake]:
    fake = Fake(tmp_path / "data")
    fake.services[:] = [
        replace(each, argv=[sys.executable, "-c", SERVICE, str(each.ports["data"]), str(library)])
        for each in fake.services
    ]
    monkeypatch.delenv(VARIABLE, raising=False)
    monkeypatch.setattr(local_cluster, "not_ready", lambda *_: wait_until_listening(fake.cluster))
    monkeypatch.setattr(
        local_cluster,
        "library_to_take",
        lambda wanted: library if library.exists() and wanted != INTERPRETED else None,
    )
    yield fake
    fake.cluster.stop()


def moved_by_start(fake: Fake) -> dict[str, str]:
    fake.said.clear()
    return fake.cluster.start(fake.said.append).moved


def test_services_move_to_a_binary_that_has_appeared_one_by_one_and_etcd_stays(fake: Fake, library: Path) -> None:
    fake.start()
    before = [fake.cluster.identity(service) for service in fake.services]
    assert moved_by_start(fake) == {}
    library.write_bytes(b"binary")
    assert [service.name for service, _ in fake.cluster.on_other_cores()] == WITH_CORES
    assert moved_by_start(fake) == dict.fromkeys(WITH_CORES, "the compiled cores")
    assert fake.said == [f"{name}: moving to the compiled cores" for name in WITH_CORES]
    after = [fake.cluster.identity(service) for service in fake.services]
    assert after[0] == before[0]
    assert not set(after[1:]) & set(before[1:])
    assert moved_by_start(fake) == {}


def test_services_move_from_a_binary_that_was_replaced(fake: Fake, library: Path) -> None:
    library.write_bytes(b"binary")
    fake.start()
    assert moved_by_start(fake) == {}
    library.with_suffix(".new").write_bytes(b"another")
    library.with_suffix(".new").replace(library)
    assert moved_by_start(fake) == dict.fromkeys(WITH_CORES, "the compiled cores")
    assert moved_by_start(fake) == {}


def test_services_move_back_to_plain_modules_if_asked(
    fake: Fake, library: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    library.write_bytes(b"binary")
    fake.start()
    monkeypatch.setenv(VARIABLE, INTERPRETED)
    assert moved_by_start(fake) == dict.fromkeys(WITH_CORES, "plain modules")
    assert moved_by_start(fake) == {}


def test_what_the_environment_of_a_service_says_counts_before_that_of_all(fake: Fake, library: Path) -> None:
    index = ALL.index("purgatory")
    fake.services[index] = replace(fake.services[index], environment={VARIABLE: INTERPRETED})
    fake.start()
    library.write_bytes(b"binary")
    assert sorted(moved_by_start(fake)) == sorted(set(WITH_CORES) - {"purgatory"})
    assert moved_by_start(fake) == {}


def test_one_that_does_not_come_up_is_named_with_a_way_back(fake: Fake, library: Path) -> None:
    fake.start()
    library.write_bytes(b"binary")
    index = ALL.index("logstore")
    fake.services[index] = replace(
        fake.services[index], argv=[sys.executable, "-c", "import sys; sys.exit('no symbol')"]
    )
    found = (
        r"(?s)logstore did not come up on the compiled cores: logstore died; .*no symbol"
        r".*with BARNABAS_CORES=interpreted, `make up` or `barnabas up` starts it on plain modules"
    )
    with pytest.raises(ClusterError, match=found):
        moved_by_start(fake)
    assert fake.said == [f"{name}: moving to the compiled cores" for name in ("controller", "logstore")]


def test_what_this_process_maps_is_found(tmp_path: Path) -> None:
    own = os.getpid()
    library = tmp_path / f"{LIBRARY}.so"
    library.write_bytes(b"binary")
    linked = tmp_path / "linked"
    linked.symlink_to(tmp_path)
    with library.open("rb") as file, mmap.mmap(file.fileno(), 0, mmap.MAP_PRIVATE, mmap.PROT_READ):
        found = libraries_of(Path(f"/proc/{own}/maps").read_text())
        assert str(library) in found
        assert runs_other_cores(own, None)
        if len(found) == 1:  # else this process runs the binary of the checkout
            assert not runs_other_cores(own, linked / library.name)
        library.unlink()
        assert runs_other_cores(own, library)
    assert not runs_other_cores(1 << 30, library), "it has ended"


def test_a_new_process_takes_a_build_of_these_sources_unless_plain_modules_are_asked_for(tmp_path: Path) -> None:
    (tmp_path / "barnabas/wire").mkdir(parents=True)
    (tmp_path / "barnabas/wire/a.py").touch()
    folder, suffix = tmp_path / "build", EXTENSION_SUFFIXES[0]
    folder.mkdir()

    def taken(wanted: str) -> Path | None:
        return library_to_take(wanted, [folder], tmp_path)

    assert taken("") is None
    manifest = {"suffix": suffix, "modules": [], "folders": ["barnabas/wire"], "made_by": ""}
    manifest["digest"] = digest(["barnabas/wire"], tmp_path)
    (folder / MANIFEST).write_text(json.dumps(manifest))
    assert taken("") == taken(COMPILED) == folder / (LIBRARY + suffix)
    assert taken(INTERPRETED) is None
    (tmp_path / "barnabas/wire/a.py").write_text("changed = 1\n")
    assert taken("") is None
    assert cores_in_use.name_of(None) == "plain modules"
