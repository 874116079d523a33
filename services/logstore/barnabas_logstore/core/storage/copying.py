"""What a `CopyEffect` does on the disks."""

from __future__ import annotations

from barnabas.ports.disk import Disk, DiskError, DiskErrorKind, DiskFile
from barnabas_logstore.core.storage.effects import CopyEffect


def copy_files(disk: Disk, effect: CopyEffect) -> None:
    """Raises DiskError; its path says which of the two directories it was."""
    if effect.forgets and disk.exists(effect.forgets):
        disk.remove(effect.forgets)
        disk.flush_directory(effect.forgets.rpartition("/")[0])
    if effect.makes is not None:
        path, content = effect.makes
        disk.make_directory(effect.future)
        _write(disk, path, 0, content)
    for source, target, position, length in effect.pieces:
        file = _open_if_there(disk, source)
        if file is not None:
            _write(disk, target, position, disk.read_at(file, position, length))
    for source, target in effect.files:
        file = _open_if_there(disk, source)
        if file is not None:
            _write(disk, target, 0, disk.read_at(file, 0, disk.size(file)))
    for path in effect.flushes:
        file = _open_if_there(disk, path)
        if file is not None:
            disk.flush(file)
    if effect.keeps is not None:
        for entry in disk.list(effect.future):
            if entry.name not in effect.keeps:
                disk.remove(f"{effect.future}/{entry.name}")
        disk.flush_directory(effect.future)
    if effect.final:
        disk.rename(effect.future, effect.final)
        disk.flush_directory(effect.log_directory)


def _write(disk: Disk, path: str, position: int, content: bytes) -> None:
    """Put `content` at `position`, and end the file there: what an earlier copy of another segment left is gone."""
    file = disk.open(path, create=True)
    disk.truncate(file, position)
    disk.write_at(file, position, (content,))


def _open_if_there(disk: Disk, path: str) -> DiskFile | None:
    try:
        return disk.open(path)
    except DiskError as error:
        if error.kind is not DiskErrorKind.NOT_FOUND:
            raise
        return None
