"""Files that no table names: of tasks that ran twice, of batches and of upkeep that died before their commit.

What a table needs is asked before its directories are listed and after. A file is taken only if neither answer has it
and if it is older than any batch may last: what is being written now is young, what was committed meanwhile is in the
second answer. Where the listing lacks a file that both answers have, names and places do not match (a damaged table, a
path that is spelled in two ways), and nothing at all is deleted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from pyarrow import fs

from barnabas_pipeline.tables.contract import TableError
from barnabas_pipeline.tables.locations import filesystem_and_path


@dataclass(frozen=True, slots=True)
class Listed:
    """A file as its file system has it. `path` is that of `path_in_filesystem`."""

    path: str
    modified_ms: int


def path_in_filesystem(uri: str) -> str:
    """A file's address without its scheme, which libraries spell differently (file:/, file:///, s3a://)."""
    if uri.startswith("file:"):
        return "/" + uri.removeprefix("file:").lstrip("/")
    return uri.partition("://")[2] or uri


def files_below(directory: str) -> Iterator[Listed]:
    """All files under a directory's address, at any depth; none if there is no such directory."""
    filesystem, path = filesystem_and_path(directory)
    for each in filesystem.get_file_info(fs.FileSelector(path, allow_not_found=True, recursive=True)):
        if each.is_file:
            yield Listed(each.path, (each.mtime_ns or 0) // 1_000_000)


def delete_orphans(
    name: str,
    directories: Iterable[str],
    named: Callable[[], set[str]],
    ours: Callable[[str], bool],
    older_than_ms: int,
) -> int:
    """Delete what `named` (addresses of all files that the table needs, read anew) does not have; how many went.

    `ours` says of a path whether it can be of a table at all. Raises TableError, with nothing deleted.
    """
    roots = tuple(directories)
    before = {path_in_filesystem(uri) for uri in named()}
    listed = {each.path: each for root in roots for each in files_below(root)}
    after = {path_in_filesystem(uri) for uri in named()}
    below = tuple(path_in_filesystem(root) + "/" for root in roots)
    missing = sorted(path for path in before & after if path.startswith(below) and path not in listed)
    if missing:
        raise TableError(
            f"{name}: {missing[0]} is named and not there ({len(missing):,} such files); no orphan was deleted: "
            "put the table back from a back-up first"
        )
    if not any(path.startswith(below) for path in after):
        return 0  # it has no file there: nothing shows that its names and these paths are spelled alike
    filesystem, _ = filesystem_and_path(roots[0])
    count = 0
    for path in sorted(listed.keys() - before - after):
        if listed[path].modified_ms < older_than_ms and ours(path):
            _delete(filesystem, path)
            count += 1
    return count


def _delete(filesystem: fs.FileSystem, path: str) -> None:
    try:
        filesystem.delete_file(path)
    except FileNotFoundError:
        pass  # another upkeep was quicker
