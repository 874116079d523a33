"""A checkout as small as a build beside a cluster can begin in, where another program is the build."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

from barnabas.cores import VARIABLE
from tests.releases import ROOT

COPIED = (
    "barnabas/__init__.py",
    "barnabas/cores.py",
    "scripts/__init__.py",
    "scripts/compiled/beside.py",
    "scripts/compiled/compiler.py",
    "scripts/compiled/lock.py",
)
SOURCE = "barnabas/wire/a.py"
SEEN = ("barnabas/wire",)

GIVES_WAY = "preexec_fn=_give_way"
"""Left out: beside other tests on all processors, a process of idle priority does nothing for minutes."""

SUCCEEDS = f"""
import json, sys
from importlib.machinery import EXTENSION_SUFFIXES
from barnabas.cores import MANIFEST, PLACES, digest
PLACES[0].mkdir()
manifest = dict(suffix=EXTENSION_SUFFIXES[0], modules=[], folders={SEEN!r}, digest=digest({SEEN!r}), made_by="")
(PLACES[0] / MANIFEST).write_text(json.dumps(manifest))
print("built with", *sys.argv[1:])
"""
FAILS = "raise SystemExit('no memory left')"
HANGS = "import time; print('hangs', flush=True); time.sleep(600)"
"""What stands in for the build."""


class Checkout:
    def __init__(self, root: Path) -> None:
        self.root = root
        for name in COPIED:
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, root / name)
        beside = root / "scripts/compiled/beside.py"
        text = beside.read_text()
        assert GIVES_WAY in text
        beside.write_text(text.replace(GIVES_WAY, "preexec_fn=None"))
        (root / "scripts/compiled/sources.py").write_text(f"SEEN = {SEEN!r}\n")
        (root / SOURCE).parent.mkdir()
        (root / SOURCE).write_text("first = 1\n")

    @property
    def log(self) -> str:
        path = self.root / "build/compiled.log"
        return path.read_text() if path.exists() else ""

    def build_by(self, program: str) -> None:
        (self.root / "scripts/compiled/__main__.py").write_text(program)

    def beside(self, *arguments: str, **variables: str) -> str:
        """Return what it printed, run as `make up` does it, but that neither CI nor BARNABAS_CORES is inherited."""
        kept = {name: value for name, value in os.environ.items() if name not in ("CI", VARIABLE)}
        done = subprocess.run(
            [sys.executable, "-m", "scripts.compiled.beside", *arguments],
            cwd=self.root,
            env=kept | variables,
            capture_output=True,
            text=True,
            check=False,
        )
        assert (done.returncode, done.stderr) == (0, "")
        return done.stdout

    def processes(self) -> list[int]:
        """Return those that work in this checkout."""
        found = []
        for each in Path("/proc").iterdir():
            try:
                place = os.readlink(each / "cwd") if each.name.isdigit() else ""
            except OSError:
                continue
            if place.removesuffix(" (deleted)") == str(self.root):
                found.append(int(each.name))
        return found

    def wait_for_log(self, text: str) -> None:
        while text not in self.log:
            time.sleep(0.02)

    def wait_until_ended(self) -> None:
        while self.processes():
            time.sleep(0.02)

    def kill(self) -> None:
        while left := self.processes():
            for pid in left:
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
            time.sleep(0.02)
