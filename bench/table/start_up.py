"""`make up` in a new clone, beside the start of an Apache Kafka broker that has no data yet."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Final

from barnabas.cores import INTERPRETED, VARIABLE
from bench.report import ROOT
from bench.sides import ApacheKafkaSide
from bench.table.rows import KAFKA, OURS, Row, Sample
from bench.table.stage import Stage

_PORT: Final = 28_500
_SECONDS_MAX: Final = 600


def take(stage: Stage) -> None:
    """The stage has no sides of its own: each sample starts from nothing, and stops what it has started."""
    title = "`make up` in a new clone, pip's or uv's cache and etcd there: until a client can produce"
    with stage.row(Row("make-up", title, "≤ 10 s", "s", is_less_better=True)) as row:
        _clone_and_up()
        stage.take(row, {OURS: _clone_and_up, KAFKA: _kafka_from_nothing}, stage.scale.clones)


def _clone_and_up() -> Sample:
    with tempfile.TemporaryDirectory(prefix="clone-", dir=ROOT / ".cache") as name:
        clone = Path(name) / "barnabas"
        subprocess.run(["git", "clone", "--quiet", str(ROOT), str(clone)], check=True)
        if (ROOT / ".cache/etcd").exists():
            shutil.copytree(ROOT / ".cache/etcd", clone / ".cache/etcd")
        began = time.monotonic()
        try:
            _make(clone, "up")
            return Sample(time.monotonic() - began)
        finally:
            _make(clone, "down")


def _make(clone: Path, target: str) -> None:
    # This virtual environment is not the clone's. A clone has no binary, and is to begin no build, which would go on.
    ours = {"MAKEFLAGS", "MAKELEVEL", "MFLAGS", "VIRTUAL_ENV"}
    environment = {key: value for key, value in os.environ.items() if key not in ours} | {VARIABLE: INTERPRETED}
    done = subprocess.run(
        ["make", target, f"PORT={_PORT}"] if target == "up" else ["make", target],
        cwd=clone,
        env=environment,
        capture_output=True,
        text=True,
        timeout=_SECONDS_MAX,
        check=False,
    )
    if done.returncode != 0:
        raise RuntimeError(f"make {target} failed: {(done.stdout + done.stderr).strip().splitlines()[-1:]}")


def _kafka_from_nothing() -> Sample:
    with tempfile.TemporaryDirectory(prefix="kafka-", dir=ROOT / ".cache") as name:
        side = ApacheKafkaSide(Path(name) / "broker")
        began = time.monotonic()
        try:
            side.start()
            return Sample(time.monotonic() - began)
        finally:
            side.stop()
