"""A disk in memory that forgets what was not flushed.

It keeps two states of everything: what a process sees, and what would survive a power cut. `lose_power` lets chance
decide what of the difference reaches the platter: writes survive in pieces of a sector, in any order; creations,
renames and removals survive in their order, up to some point of each directory. A killed process loses nothing here.
`faults` make single operations fail.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random

from barnabas.ports.disk import Buffer, DirectoryEntry, DiskError, DiskErrorKind, DiskFile

SECTOR_BYTES = 512


@dataclass(slots=True)
class Fault:
    """Fail `operation` (a method's name) on paths that contain `path_part`, `times` times after `skip` that go well.

    A write that fails leaves its first `written_bytes` behind.
    """

    operation: str
    path_part: str = ""
    kind: DiskErrorKind = DiskErrorKind.IO
    skip: int = 0
    times: int = 1
    written_bytes: int = 0
    hits: int = 0


@dataclass(slots=True, eq=False)
class _FileNode:
    content: bytearray = field(default_factory=bytearray)
    durable: bytearray = field(default_factory=bytearray)
    unflushed: list[tuple[int, bytes | None]] = field(default_factory=list)
    """(position, bytes) of a write, (byte count, None) of a truncation; oldest first."""


@dataclass(slots=True, eq=False)
class _DirectoryNode:
    entries: dict[str, _FileNode | _DirectoryNode] = field(default_factory=dict)
    durable: dict[str, _FileNode | _DirectoryNode] = field(default_factory=dict)
    unflushed: list[list[tuple[str, _FileNode | _DirectoryNode | None]]] = field(default_factory=list)
    """Changes that each happen as one: names and what they name from then on (None: nothing)."""


@dataclass(slots=True, eq=False)
class ModelFile:
    path: str
    node: _FileNode


class DiskModel:
    def __init__(self, capacity_bytes: int | None = None) -> None:
        self.capacity_bytes = capacity_bytes
        self.faults: list[Fault] = []
        self._root = _DirectoryNode()

    def lose_power(self, random: Random) -> None:
        """Forget what was not flushed, except what `random` lets through. Open files are void from now on."""
        self._lose_in(self._root, random)

    def used_bytes(self) -> int:
        return _used_bytes(self._root)

    # --- Disk ---

    def open(self, path: str, *, create: bool = False) -> ModelFile:
        self._check("open", path)
        parent, name = self._parent("open", path)
        node = parent.entries.get(name)
        if node is None and create:
            node = _FileNode()
            _change(parent, (name, node))
        if not isinstance(node, _FileNode):
            raise DiskError(DiskErrorKind.NOT_FOUND, "open", path)
        return ModelFile(path, node)

    def size(self, file: DiskFile) -> int:
        self._check("size", file.path)
        return len(_node(file).content)

    def read_at(self, file: DiskFile, position: int, length: int) -> bytes:
        assert position >= 0
        assert length >= 0
        self._check("read_at", file.path)
        return bytes(memoryview(_node(file).content)[position : position + length])

    def map(self, file: DiskFile) -> Buffer:
        self._check("map", file.path)
        return bytes(_node(file).content)

    def write_at(self, file: DiskFile, position: int, buffers: Sequence[Buffer]) -> None:
        data = b"".join(bytes(buffer) for buffer in buffers)
        fault = self._due("write_at", file.path)
        kind = fault.kind if fault is not None else None
        byte_count = len(data) if fault is None else min(len(data), fault.written_bytes)
        node = _node(file)
        if self.capacity_bytes is not None:
            room = self.capacity_bytes - self.used_bytes() + max(len(node.content) - position, 0)
            if room < byte_count:
                kind, byte_count = DiskErrorKind.NO_SPACE, max(room, 0)
        if byte_count:
            _apply(node.content, position, data[:byte_count])
            node.unflushed.append((position, data[:byte_count]))
        if kind is not None:
            raise DiskError(kind, "write_at", file.path)

    def truncate(self, file: DiskFile, byte_count: int) -> None:
        self._check("truncate", file.path)
        node = _node(file)
        _apply(node.content, byte_count, None)
        node.unflushed.append((byte_count, None))

    def flush(self, file: DiskFile) -> None:
        node = _node(file)
        fault = self._due("flush", file.path)
        if fault is None:
            for position, data in node.unflushed:
                _apply(node.durable, position, data)
        # A failed flush marks pages clean all the same: a later one will not bring them to the disk.
        node.unflushed.clear()
        if fault is not None:
            raise DiskError(fault.kind, "flush", file.path)

    def flush_directory(self, path: str) -> None:
        self._check("flush_directory", path)
        directory = self._directory("flush_directory", path)
        directory.durable = dict(directory.entries)
        directory.unflushed.clear()

    def read_file(self, path: str) -> bytes:
        file = self.open(path)
        return self.read_at(file, 0, self.size(file))

    def replace_file(self, path: str, content: bytes) -> None:
        self._check("replace_file", path)
        temporary_path = f"{path}.tmp"
        file = self.open(temporary_path, create=True)
        self.truncate(file, 0)
        self.write_at(file, 0, (content,))
        self.flush(file)
        self.rename(temporary_path, path)
        self.flush_directory(path.rpartition("/")[0])

    def rename(self, source: str, target: str) -> None:
        self._check("rename", source)
        parent, source_name = self._parent("rename", source)
        target_parent, target_name = self._parent("rename", target)
        assert parent is target_parent, "nothing moves between directories"
        if source_name not in parent.entries:
            raise DiskError(DiskErrorKind.NOT_FOUND, "rename", source)
        _change(parent, (source_name, None), (target_name, parent.entries[source_name]))

    def remove(self, path: str) -> None:
        self._check("remove", path)
        parent, name = self._parent("remove", path)
        if not isinstance(parent.entries.get(name), _FileNode):
            raise DiskError(DiskErrorKind.NOT_FOUND, "remove", path)
        _change(parent, (name, None))

    def exists(self, path: str) -> bool:
        try:
            parent, name = self._parent("exists", path)
        except DiskError:
            return False
        return name in parent.entries

    def list(self, path: str) -> list[DirectoryEntry]:
        self._check("list", path)
        entries = sorted(self._directory("list", path).entries.items())
        return [
            DirectoryEntry(name, len(node.content), False)
            if isinstance(node, _FileNode)
            else DirectoryEntry(name, 0, True)
            for name, node in entries
        ]

    def make_directory(self, path: str) -> None:
        self._check("make_directory", path)
        parent, name = self._parent("make_directory", path)
        node = parent.entries.get(name)
        if node is None:
            _change(parent, (name, _DirectoryNode()))
        else:
            assert isinstance(node, _DirectoryNode), f"{path} is a file"

    def remove_directory(self, path: str) -> None:
        self._check("remove_directory", path)
        assert not self._directory("remove_directory", path).entries, f"{path} is not empty"
        parent, name = self._parent("remove_directory", path)
        _change(parent, (name, None))

    # --- inside ---

    def _due(self, operation: str, path: str) -> Fault | None:
        for fault in self.faults:
            if fault.operation == operation and fault.path_part in path and fault.times > 0:
                if fault.skip > 0:
                    fault.skip -= 1
                    continue
                fault.times -= 1
                fault.hits += 1
                return fault
        return None

    def _check(self, operation: str, path: str) -> None:
        fault = self._due(operation, path)
        if fault is not None:
            raise DiskError(fault.kind, operation, path)

    def _directory(self, operation: str, path: str) -> _DirectoryNode:
        node: _FileNode | _DirectoryNode | None = self._root
        for name in filter(None, path.split("/")):
            node = node.entries.get(name) if isinstance(node, _DirectoryNode) else None
        if not isinstance(node, _DirectoryNode):
            raise DiskError(DiskErrorKind.NOT_FOUND, operation, path)
        return node

    def _parent(self, operation: str, path: str) -> tuple[_DirectoryNode, str]:
        parent, _, name = path.rpartition("/")
        return self._directory(operation, parent), name

    def _lose_in(self, directory: _DirectoryNode, random: Random) -> None:
        survivors = random.randint(0, len(directory.unflushed))
        for change in directory.unflushed[:survivors]:
            for name, node in change:
                if node is None:
                    directory.durable.pop(name, None)
                else:
                    directory.durable[name] = node
        directory.unflushed.clear()
        directory.entries = dict(directory.durable)
        for _, node in sorted(directory.entries.items()):
            if isinstance(node, _FileNode):
                _lose_unflushed(node, random)
            else:
                self._lose_in(node, random)


def _lose_unflushed(node: _FileNode, random: Random) -> None:
    survival = random.choice((0.0, 0.5, 0.9, 1.0))
    for position, data in node.unflushed:
        if data is None:
            if random.random() < survival:
                _apply(node.durable, position, None)
            continue
        start = 0
        while start < len(data):
            end = min(len(data), start + SECTOR_BYTES - (position + start) % SECTOR_BYTES)
            if random.random() < survival:
                _apply(node.durable, position + start, data[start:end])
            start = end
        if random.random() < 0.1 and len(node.durable) < position + len(data):
            # The new size got there, the bytes did not.
            node.durable.extend(bytes(position + len(data) - len(node.durable)))
    node.unflushed.clear()
    node.content = bytearray(node.durable)


def _apply(content: bytearray, position: int, data: bytes | None) -> None:
    if len(content) < position:
        content.extend(bytes(position - len(content)))
    if data is None:
        del content[position:]
    else:
        content[position : position + len(data)] = data


def _change(directory: _DirectoryNode, *changes: tuple[str, _FileNode | _DirectoryNode | None]) -> None:
    directory.unflushed.append(list(changes))
    for name, node in changes:
        if node is None:
            directory.entries.pop(name, None)
        else:
            directory.entries[name] = node


def _used_bytes(directory: _DirectoryNode) -> int:
    return sum(
        len(node.content) if isinstance(node, _FileNode) else _used_bytes(node) for node in directory.entries.values()
    )


def _node(file: DiskFile) -> _FileNode:
    assert isinstance(file, ModelFile), "a file of another disk"
    return file.node
