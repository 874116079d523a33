"""Where tables live: a local directory, or whatever Arrow's file systems reach (s3://, gs://, abfss://, hdfs://)."""

from __future__ import annotations

import functools
import urllib.parse
from pathlib import Path

from pyarrow import fs

from barnabas_pipeline.core.errors import WrongOption


def to_uri(location: str) -> str:
    """A path made absolute, as a file:// address; other addresses as they are, without a slash at the end.

    Nothing is escaped: Iceberg's, Delta's and Hadoop's libraries disagree about what an escape in a path means. So the
    few signs that would need one are refused. Raises WrongOption.
    """
    uri = location.rstrip("/") if "://" in location else f"file://{Path(location).expanduser().resolve()}"
    if any(sign in uri for sign in "?#%"):
        raise WrongOption(f"a place of tables can't have ?, # or % in its name: {location}")
    return uri


@functools.lru_cache(maxsize=64)
def _filesystem(root: str) -> fs.FileSystem:
    return fs.FileSystem.from_uri(root)[0]


def filesystem_and_path(uri: str) -> tuple[fs.FileSystem, str]:
    """The file system, and the path in it; credentials come from the environment as Arrow finds them."""
    parsed = urllib.parse.urlsplit(uri)
    if parsed.scheme in ("", "file"):
        return _filesystem("file:///"), parsed.path
    return _filesystem(f"{parsed.scheme}://{parsed.netloc}"), parsed.netloc + parsed.path


def delete_file(uri: str) -> None:
    """Delete it; one that is gone already is fine."""
    filesystem, path = filesystem_and_path(uri)
    try:
        filesystem.delete_file(path)
    except FileNotFoundError:
        pass


def local_path(uri: str) -> Path | None:
    """The path of a file:// address, None for others."""
    parsed = urllib.parse.urlsplit(uri)
    return Path(parsed.path) if parsed.scheme in ("", "file") else None
