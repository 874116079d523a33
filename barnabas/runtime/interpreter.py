"""How the Python that runs this was built: without profile-guided optimization the cores take a fifth more CPU.

`scripts/setup` runs this file with each interpreter that it finds, before anything is installed: it imports nothing
of ours.
"""

from __future__ import annotations

import platform
import sys
import sysconfig

_PGO = ("--enable-optimizations", "-fprofile-use", "-fprofile-instr-use")
_LTO = ("--with-lto", "-flto")


def build_flags(
    configure: str | None = None, compiler_flags: str | None = None, base_prefix: str = sys.base_prefix
) -> str:
    """Return how CPython was made: `PGO and LTO`, `PGO`, `LTO`, `as the distribution builds it` or `not optimized`.

    A distribution's own interpreter, in /usr, does not say how it was made. Debian, Ubuntu and Fedora use both.
    """
    if configure is None or compiler_flags is None:
        configure = str(sysconfig.get_config_var("CONFIG_ARGS") or "")
        compiler_flags = str(sysconfig.get_config_var("PY_CORE_CFLAGS") or "")
    flags = f"{configure} {compiler_flags}"
    found = [name for name, marks in (("PGO", _PGO), ("LTO", _LTO)) if any(mark in flags for mark in marks)]
    if "PGO" not in found and base_prefix == "/usr":
        return "as the distribution builds it"
    return " and ".join(found) or "not optimized"


def is_optimized(flags: str) -> bool:
    """Whether `build_flags` are those of a build with profile-guided optimization."""
    return flags.startswith(("PGO", "as the distribution"))


def main() -> int:
    """Print version and flags; return 0 if it is optimized, else 3."""
    flags = build_flags()
    print(f"Python {platform.python_version()}, {flags}")
    return 0 if is_optimized(flags) else 3


if __name__ == "__main__":
    sys.exit(main())
