"""Where tables live: a local directory, or whatever Arrow's file systems reach (s3://, gs://, abfss://, hdfs://)."""

from __future__ import annotations

import functools
import urllib.parse
from pathlib import Path

from pyarrow import fs


def to_uri(location: str) -> str:
    """A path made absolute, as a file:// address; other addresses as they are, without a slash at the end."""
    if "://" in location:
        return location.rstrip("/")
    return Path(location).expanduser().resolve().as_uri()


@functools.lru_cache(maxsize=64)
def _filesystem(root: str) -> fs.FileSystem:
    return fs.FileSystem.from_uri(root)[0]


def filesystem_and_path(uri: str) -> tuple[fs.FileSystem, str]:
    """The file system, and the path in it; credentials come from the environment as Arrow finds them."""
    parsed = urllib.parse.urlsplit(uri)
    if parsed.scheme in ("", "file"):
        return _filesystem("file:///"), urllib.parse.unquote(parsed.path)
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
    return Path(urllib.parse.unquote(parsed.path)) if parsed.scheme in ("", "file") else None
