"""What builds have made, by a digest of what it was made of: a clone on a machine that has built the same before takes
it, and a change of one module compiles little more than that.

It is in `$XDG_CACHE_HOME/barnabas/compiled`, or below ~/.cache. What has not been used for weeks is deleted.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterable, Sequence
from pathlib import Path

UNUSED_S_MAX = 21 * 24 * 3600


class Cache:
    """Files in one folder. Where it can't be written there is none, and everything is built: a cache never fails."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def take(self, key: str, target: Path) -> bool:
        """Copy what was kept under this key to `target`; return whether there is any.

        A process may have mapped the file that is there, so it is replaced, not written.
        """
        kept, copied = self._folder / key, target.with_name(f"{target.name}.new")
        try:
            shutil.copyfile(kept, copied)
            copied.replace(target)
            os.utime(kept)
        except OSError:
            return False
        return True

    def keep(self, key: str, made: Path) -> None:
        """Keep a copy. Others may do so at the same time, so it appears as a whole."""
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            descriptor, written = tempfile.mkstemp(dir=self._folder, prefix=".new-")
            with os.fdopen(descriptor, "wb") as copy:
                copy.write(made.read_bytes())
                copy.flush()
                os.fsync(copy.fileno())  # a power cut must not leave an empty file of that name
            os.replace(written, self._folder / key)
        except OSError:
            return

    def prune(self, now_s: float | None = None) -> None:
        """Delete what was not taken for long."""
        oldest_s = (time.time() if now_s is None else now_s) - UNUSED_S_MAX
        try:
            for each in self._folder.iterdir():
                if each.stat().st_mtime < oldest_s:
                    each.unlink()
        except OSError:
            return


def of_this_user() -> Cache:
    base = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return Cache(Path(base) / "barnabas/compiled")


def digest_of(*parts: str | bytes | Path) -> str:
    """Return a digest of texts and of files' contents, in their order."""
    found = hashlib.blake2b(digest_size=20)
    for part in parts:
        content = part.read_bytes() if isinstance(part, Path) else part.encode() if isinstance(part, str) else part
        found.update(len(content).to_bytes(8))
        found.update(content)
    return found.hexdigest()


def version_of(compiler: Sequence[str]) -> str:
    """Return what a compiler says of itself."""
    return subprocess.run([*compiler, "--version"], capture_output=True, text=True, check=False).stdout


def files_of(folder: Path, patterns: Iterable[str]) -> list[Path]:
    return sorted(path for pattern in patterns for path in folder.glob(pattern))
