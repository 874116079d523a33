"""Locations of tables: a local directory, or any of Arrow's file systems (s3://, gs://, abfss://, hdfs://)."""

from __future__ import annotations

import functools
import urllib.parse
from pathlib import Path

from pyarrow import fs

from barnabas_pipeline.core.errors import WrongOption


def to_uri(location: str) -> str:
    """Make a path absolute, as a file:// address; other addresses stay, without a slash at the end.

    Nothing is escaped: Iceberg's, Delta's and Hadoop's libraries disagree about escapes in a path. So the few
    characters that would need one are refused. Raises WrongOption.
    """
    uri = location.rstrip("/") if "://" in location else f"file://{Path(location).expanduser().resolve()}"
    if any(sign in uri for sign in "?#%"):
        raise WrongOption(f"the location of tables can't contain ?, # or %: {location}")
    return uri


@functools.lru_cache(maxsize=64)
def _filesystem(root: str) -> fs.FileSystem:
    return fs.FileSystem.from_uri(root)[0]


def filesystem_and_path(uri: str) -> tuple[fs.FileSystem, str]:
    """Return the file system, and the path in it; Arrow takes credentials from the environment."""
    parsed = urllib.parse.urlsplit(uri)
    if parsed.scheme in ("", "file"):
        return _filesystem("file:///"), parsed.path
    return _filesystem(f"{parsed.scheme}://{parsed.netloc}"), parsed.netloc + parsed.path


def delete_file(uri: str) -> None:
    """Delete it; a missing one is fine."""
    filesystem, path = filesystem_and_path(uri)
    try:
        filesystem.delete_file(path)
    except FileNotFoundError:
        pass


def local_path(uri: str) -> Path | None:
    """Return the path of a file:// address, None for others."""
    parsed = urllib.parse.urlsplit(uri)
    return Path(parsed.path) if parsed.scheme in ("", "file") else None
