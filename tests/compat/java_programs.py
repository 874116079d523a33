"""The programs of `tests/compat/java`, compiled once for what they are now, however many processes ask for them."""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
SOURCES: Final = ROOT / "tests/compat/java"
CLASSES: Final = ROOT / ".cache/peer/classes"
# What the second compiler and parallel collectors cost is never earned back within a test.
SHORT_LIVED: Final = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")


def class_path(libs: Path) -> str:
    """Return the class path of the compiled programs and of the jars in `libs`, which they are compiled against."""
    sources = sorted(SOURCES.glob("*.java"))
    digest = hashlib.sha256(repr(sorted(path.name for path in libs.glob("*.jar"))).encode())
    for source in sources:
        digest.update(source.read_bytes())
    classes = CLASSES / digest.hexdigest()[:16]
    CLASSES.mkdir(parents=True, exist_ok=True)
    with (CLASSES / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not classes.exists():
            unfinished = CLASSES / "unfinished"
            shutil.rmtree(unfinished, ignore_errors=True)
            subprocess.run(["javac", "-cp", f"{libs}/*", "-d", unfinished, *sources], check=True)
            unfinished.rename(classes)
    return f"{libs}/*{os.pathsep}{classes}"
