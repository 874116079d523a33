"""A disk that is full under a table, at any step of a batch: one line, nothing of it twice, nothing lost."""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("pyiceberg", reason="needs the pipeline's environment (make pipeline)")
pytest.importorskip("deltalake", reason="needs the pipeline's environment (make pipeline)")

from barnabas_pipeline.tables.running import as_pipeline_error
from tests.pipeline.tables_world import World
from tests.pipeline.test_exactly_once import FORMATS, filled

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="mounts a small file system: needs root")
PAGE_BYTES = 4_096
PAGES_LEFT_MAX = 24


@contextlib.contextmanager
def small_disk(directory: Path, mebibytes: int) -> Iterator[None]:
    directory.mkdir(parents=True)
    mount = ["mount", "-t", "tmpfs", "-o", f"size={mebibytes}m", "tmpfs", str(directory)]
    if subprocess.run(mount, capture_output=True, check=False).returncode != 0:
        pytest.skip("no right to mount a small file system here")
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", str(directory)], check=False)


def fill_but(filler: Path, pages: int) -> None:
    """Leave so many pages: with each one more, a batch gets a little further."""
    with filler.open("wb", buffering=0) as file:
        with contextlib.suppress(OSError):
            while True:
                file.write(bytes(PAGE_BYTES))
        file.truncate(file.tell() - pages * PAGE_BYTES)


@pytest.mark.parametrize("into", FORMATS)
def test_a_disk_that_is_full_at_any_step(tmp_path: Path, into: str) -> None:
    world = World(tmp_path, filled(), {"into": into, "value": "json", "checkpoint": str(tmp_path / "checkpoint")})
    refused: list[str] = []
    with small_disk(tmp_path / "lake", 4):
        world.run()
        filler = tmp_path / "lake" / "filler"
        for pages in range(PAGES_LEFT_MAX):
            for partition in range(3):
                world.cluster.produce("orders", partition, (b"k", b"{}"), (b"k", b"not JSON"))
            fill_but(filler, pages)
            try:
                world.run()
            except Exception as error:
                refused.append(str(as_pipeline_error(error, world.job.checkpoint_root)))
            filler.unlink()
        world.run()
        world.run()
        rows, dead = world.identities("orders"), world.identities("orders__dead_letters")
    assert sorted(rows + dead) == world.produced("orders")
    assert refused
    assert {said[:32] for said in refused} == {"no space left for the checkpoint"}
