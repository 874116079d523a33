"""Find what it takes to compile C for this Python."""

from __future__ import annotations

import os
import shlex
import shutil
import sysconfig
from pathlib import Path


def find_compiler() -> list[str]:
    """Return the command of a C compiler; raises SystemExit if there is none, or no header files of Python."""
    compiler = shlex.split(os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc")
    if shutil.which(compiler[0]) is None:
        raise SystemExit(f"compiled: no C compiler {compiler[0]!r} on PATH: install one, or name it by CC")
    headers = Path(sysconfig.get_path("include"))
    if not (headers / "Python.h").exists():
        raise SystemExit(f"compiled: no Python.h in {headers}: install Python's headers (on Debian python3-dev)")
    return compiler
