"""The POSIX implementation of `barnabas.ports.disk.Disk`. Safe to call from several IO workers at once."""

from __future__ import annotations

import contextlib
import errno
import mmap
import os
import resource
from collections.abc import Iterator, Sequence

from barnabas.ports.disk import Buffer, DirectoryEntry, DiskError, DiskErrorKind, DiskFile
from barnabas_logstore.shell.open_files import FILES_MAX, OpenFiles, PosixFile
from barnabas_logstore.shell.volumes import Volumes

# The limit of one pwritev, which Linux has always had.
BUFFERS_PER_WRITE_MAX = 1024
# Below this a copy costs less than a mapping and the descriptor that Python duplicates for one.
MAPPED_BYTES_MIN = 64 * 1024

_KINDS = {
    errno.ENOENT: DiskErrorKind.NOT_FOUND,
    errno.ENOTDIR: DiskErrorKind.NOT_FOUND,
    errno.ENOSPC: DiskErrorKind.NO_SPACE,
    errno.EDQUOT: DiskErrorKind.NO_SPACE,
    errno.EMFILE: DiskErrorKind.TOO_MANY_FILES,
    errno.ENFILE: DiskErrorKind.TOO_MANY_FILES,
    errno.EROFS: DiskErrorKind.READ_ONLY,
    errno.EACCES: DiskErrorKind.PERMISSION,
    errno.EPERM: DiskErrorKind.PERMISSION,
}


class PosixDisk:
    def __init__(self, files_max: int = FILES_MAX) -> None:
        """`files_max` files are kept open for their next use; see `open_files`."""
        self._files = OpenFiles(files_max)
        self._volumes = Volumes()
        self._nowhere = -1

    def open(self, path: str, *, create: bool = False) -> PosixFile:
        file = self._files.get(path)
        if file is not None:
            return file
        flags = os.O_RDWR | os.O_CLOEXEC | (os.O_CREAT if create else 0)
        names_changed = self._files.names_changed
        with _named("open", path):
            if len(self._files) >= _files_limit() * 3 // 4:
                # Sockets, directories and mappings need descriptors too.
                self._files.close_unused(self.flush)
            return self._files.keep(PosixFile(path, self._open(path, flags)), names_changed)

    def opened(self, path: str) -> PosixFile | None:
        return self._files.get(path)

    def _open(self, path: str, flags: int) -> int:
        try:
            return os.open(path, flags, 0o644)
        except OSError as error:
            if error.errno not in (errno.EMFILE, errno.ENFILE):
                raise
            self._files.close_unused(self.flush)
            return os.open(path, flags, 0o644)

    def size(self, file: DiskFile) -> int:
        with _named("size", file.path):
            return os.fstat(_descriptor(file)).st_size

    def read_at(self, file: DiskFile, position: int, length: int) -> bytes:
        descriptor = _descriptor(file)
        try:
            data = os.pread(descriptor, length, position)
            while len(data) < length:
                # A signal, or Linux's limit of 2 GiB a call, can cut a read short of the file's end.
                more = os.pread(descriptor, length - len(data), position + len(data))
                if not more:
                    break
                data += more
        except OSError as error:
            raise disk_error(error, "read", file.path) from error
        return data

    def load(self, file: DiskFile, position: int, length: int) -> int:
        loaded = 0
        with _named("load", file.path):
            if self._nowhere < 0:
                self._nowhere = os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC)
            # Who reads a cold file reads on, and the kernel reads ahead, twice as far by this. It does so in large
            # pages; what it is asked for (WILLNEED) it reads in small ones, at ten times the processor time.
            os.posix_fadvise(_descriptor(file), 0, 0, os.POSIX_FADV_SEQUENTIAL)
            while loaded < length:
                # The kernel reads pages to pass them on, and /dev/null copies nothing.
                sent = os.sendfile(self._nowhere, _descriptor(file), position + loaded, length - loaded)
                if not sent:
                    break
                loaded += sent
        return loaded

    def map(self, file: DiskFile) -> Buffer:
        mapping = self._files.mapping(file.path)
        if mapping is not None:
            return mapping
        byte_count = self.size(file)
        if byte_count < MAPPED_BYTES_MIN:
            return self.read_at(file, 0, byte_count)
        with _named("map", file.path):
            mapping = memoryview(mmap.mmap(_descriptor(file), byte_count, prot=mmap.PROT_READ))
        self._files.keep_mapping(file.path, mapping)
        return mapping

    def write_at(self, file: DiskFile, position: int, buffers: Sequence[Buffer]) -> None:
        descriptor = _descriptor(file)
        self._files.changing(file)
        try:
            for first in range(0, len(buffers), BUFFERS_PER_WRITE_MAX):
                position = _write_all(descriptor, position, buffers[first : first + BUFFERS_PER_WRITE_MAX])
        except OSError as error:
            raise disk_error(error, "write", file.path) from error

    def truncate(self, file: DiskFile, byte_count: int) -> None:
        if byte_count:
            self._files.changing(file)
        else:
            self._files.emptying(file)
        with _named("truncate", file.path):
            os.ftruncate(_descriptor(file), byte_count)

    def flush(self, file: DiskFile) -> None:
        descriptor = _descriptor(file)
        # What is written from here on may not be part of this flush.
        self._files.flushing(file)
        with _named("flush", file.path):
            os.fdatasync(descriptor)

    def flush_directory(self, path: str) -> None:
        with _named("flush directory", path):
            descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)

    def watch_volume(self, path: str) -> None:
        with _named("watch", path):
            self._volumes.watch(path)

    def is_one_volume(self, path: str, directories: Sequence[str]) -> bool:
        with _named("watch", path):
            return self._volumes.is_one(path, directories)

    def flush_volume(self, path: str) -> None:
        with _named("flush volume", path):
            self._volumes.flush(path)

    def read_file(self, path: str) -> bytes:
        file = self.open(path)
        return self.read_at(file, 0, self.size(file))

    def write_file(self, path: str, content: bytes) -> None:
        with _named("write", path):
            descriptor = self._open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC)
            try:
                _write_all(descriptor, 0, (content,))
            finally:
                os.close(descriptor)

    def replace_file(self, path: str, content: bytes) -> None:
        temporary_path = f"{path}.tmp"
        file = self.open(temporary_path, create=True)
        self.truncate(file, 0)
        self.write_at(file, 0, (content,))
        self.flush(file)
        self.rename(temporary_path, path)
        self.flush_directory(os.path.dirname(path))

    def rename(self, source: str, target: str) -> None:
        with _named("rename", source):
            os.rename(source, target)
        self._files.forget(source)
        self._files.forget(target)

    def remove(self, path: str) -> None:
        with _named("remove", path):
            os.unlink(path)
        self._files.forget(path)

    def exists(self, path: str) -> bool:
        return os.path.exists(path)

    def modified_ms(self, path: str) -> int:
        with _named("modified", path):
            return os.stat(path).st_mtime_ns // 1_000_000

    def space(self, path: str) -> tuple[int, int]:
        with _named("space", path):
            volume = os.statvfs(path)
        return volume.f_blocks * volume.f_frsize, volume.f_bavail * volume.f_frsize

    def list(self, path: str) -> list[DirectoryEntry]:
        with _named("list", path), os.scandir(path) as entries:
            found = [DirectoryEntry(entry.name, entry.stat().st_size, entry.is_dir()) for entry in entries]
        return sorted(found, key=lambda entry: entry.name)

    def make_directory(self, path: str) -> None:
        with _named("make directory", path):
            try:
                os.mkdir(path)
            except FileExistsError:
                if not os.path.isdir(path):
                    raise

    def remove_directory(self, path: str) -> None:
        with _named("remove directory", path):
            os.rmdir(path)


def _write_all(descriptor: int, position: int, buffers: Sequence[Buffer]) -> int:
    """Write every byte, however little a call writes; return the position after the last one."""
    written = os.pwritev(descriptor, buffers, position)
    if written == sum(map(len, buffers)):
        return position + written
    left = [memoryview(buffer) for buffer in buffers if len(buffer)]
    while left:
        position += written
        done = 0
        while done < len(left) and written >= len(left[done]):
            written -= len(left[done])
            done += 1
        del left[:done]
        if left:
            left[0] = left[0][written:]
            written = os.pwritev(descriptor, left, position)
    return position


def _files_limit() -> int:
    """Return how many descriptors this process may have."""
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]


def _descriptor(file: DiskFile) -> int:
    assert isinstance(file, PosixFile), "a file of another disk"
    return file.descriptor


@contextlib.contextmanager
def _named(operation: str, path: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise disk_error(error, operation, path) from error


def disk_error(error: OSError, operation: str, path: str) -> DiskError:
    """Translate an operating system error into one of `barnabas.ports.disk`."""
    return DiskError(_KINDS.get(error.errno or 0, DiskErrorKind.IO), operation, path)
