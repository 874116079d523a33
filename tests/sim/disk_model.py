"""A disk in memory that forgets what was not flushed.

It keeps two states of everything: what a process sees (the page cache), and what would survive a power cut. A killed
process loses nothing. `lose_power` lets chance decide what of the difference reached the platter, within what ext4 and
XFS promise and no more:

- A file's content is durable once `flush` of it has returned. Until then the kernel may have written back any page at
  any moment: of every page of 4 KiB some version since the last flush survives, and a page that was being written may
  be torn between two versions, by sectors of 512 bytes. A sector is whole. The size of the file is metadata and goes
  its own way: ahead of the bytes (zeros then), or behind them.
- A name is durable once `flush_directory` of its directory has returned; flushing the file alone does not do it.
  Creations, renames and removals survive in the order of a journal up to some point, or each for itself: then only
  changes of the same name keep their order, and creations in one directory among each other (a file system that had a
  later file without an earlier one could show a log without its first segment, and it could not be detected). A rename
  is one change: the name is never gone and never twice there.
- A failed flush may have written some of the pages and marks all of them clean: no later flush saves the others, and
  the kernel may drop what it holds of them (ATC'20, "Can Applications Recover from fsync Failures?").

`faults` make single operations fail, `interrupt_after` ends the process (or the machine) in the midst of whatever it
does, `capacity_bytes` is a full disk.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random

from barnabas.ports.disk import Buffer, DirectoryEntry, DiskError, DiskErrorKind, DiskFile
from tests.sim.disk_pages import FileNode, lose_unflushed
from tests.sim.scheduler import ProcessEnds

# What a disk without a capacity of its own says it has.
VOLUME_BYTES = 1 << 40


class MachineStopped(ProcessEnds):
    """The process ends here, in the midst of a disk operation. No code of production's can catch this."""


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
    on_hit: Callable[[], None] = field(default=lambda: None, repr=False)


@dataclass(slots=True, eq=False)
class _DirectoryNode:
    entries: dict[str, FileNode | _DirectoryNode] = field(default_factory=dict)
    durable: dict[str, FileNode | _DirectoryNode] = field(default_factory=dict)
    unflushed: list[list[tuple[str, FileNode | _DirectoryNode | None]]] = field(default_factory=list)
    """Changes that each happen as one: names and what they name from then on (None: nothing)."""


@dataclass(slots=True, eq=False)
class Machine:
    """One run of a machine, from power to power: the page cache of its processes."""

    is_over: bool = False


@dataclass(slots=True, eq=False, weakref_slot=True)
class ModelFile:
    path: str
    node: FileNode
    machine: Machine


class DiskModel:
    def __init__(self, capacity_bytes: int | None = None, chance: Random | None = None) -> None:
        """`chance` decides what a failed flush or an interrupted write leaves; without it they leave nothing."""
        self.capacity_bytes = capacity_bytes
        self.chance = chance
        self.faults: list[Fault] = []
        self.interrupt_after: int | None = None
        """So many more changes go well; the next one is not, or only partly, done, and the process ends with it."""
        self.on_full: Callable[[], None] = lambda: None
        """Called when a write finds no room."""
        self.flushes_volumes = True
        self.modified_wall_ms = 0
        self.wall_ms: Callable[[], int] = lambda: 0
        """Gives files the time of their last write; all have `modified_wall_ms` at least."""
        self.losses: Counter[str] = Counter()
        """What has been lost so far, and how."""
        self.keeps_open: Callable[[], bool] = lambda: True
        """Whether a file that has been opened is open still; asked each time that it matters."""
        self._opened: set[str] = set()
        self._root = _DirectoryNode()
        self._machine = Machine()

    def close_files(self) -> None:
        """No file is open any more, as in a process that has just been started."""
        self._opened.clear()

    def lose_power(self, random: Random) -> None:
        """Forget what was not flushed, except what `random` lets through. Open files are void from now on."""
        self._lose_in(self._root, random)
        self._stop_machine()

    def drop_clean_pages(self) -> None:
        """What a failed flush has marked clean leaves the page cache: reads see what the platter has."""
        self._stop_machine()
        for node in _files_in(self._root):
            if node.is_flush_failed and not node.unflushed:
                self.losses["pages dropped after a failed flush"] += node.content != node.durable
                node.content = bytearray(node.durable)

    def _stop_machine(self) -> None:
        """What other processes had open shows them nothing any more."""
        self._machine.is_over = True
        self._machine = Machine()
        for node in _files_in(self._root):
            node.sent_end = 0

    def peek(self, path: str) -> bytes:
        """A file, by those who look on, whom no fault hits; b"" where there is none."""
        directory: FileNode | _DirectoryNode | None = self._root
        for name in filter(None, path.split("/")):
            directory = directory.entries.get(name) if isinstance(directory, _DirectoryNode) else None
        return bytes(directory.content) if isinstance(directory, FileNode) else b""

    # --- what rots ---

    def flip_bit(self, path: str, position: int, bit: int) -> None:
        """Of a file at rest: in what is read as well as on the platter. A process that has it open already, for
        example a gateway that sends a range of it, reads what it was.
        """
        parent, name = self._parent("open", path)
        whole = self.open(path).node
        # A recovery cuts the bit off, and what follows takes its place: none of it was sent.
        node = FileNode(whole.content[:], whole.durable[:], whole.unflushed[:], whole.is_flush_failed)
        parent.entries[name] = node
        if parent.durable.get(name) is whole:
            parent.durable[name] = node
        parent.unflushed = [
            [(each, node if changed is whole else changed) for each, changed in change] for change in parent.unflushed
        ]
        node.content[position] ^= 1 << bit
        for index, (start, data) in enumerate(node.unflushed):
            if data is not None and start <= position < start + len(data):
                changed = bytearray(data)
                changed[position - start] ^= 1 << bit
                node.unflushed[index] = (start, bytes(changed))
        if position < len(node.durable):
            node.durable[position] = node.content[position]

    def lose_file(self, path: str) -> None:
        """It is gone, and stays gone."""
        parent, name = self._parent("remove", path)
        del parent.entries[name]
        parent.durable.pop(name, None)
        parent.unflushed = [change for change in parent.unflushed if all(each != name for each, _ in change)]

    def used_bytes(self) -> int:
        return sum(len(node.content) for node in _files_in(self._root))

    # --- Disk ---

    def open(self, path: str, *, create: bool = False) -> ModelFile:
        self._check("open", path)
        parent, name = self._parent("open", path)
        node = parent.entries.get(name)
        if node is None and create:
            self._interrupt()
            node = FileNode()
            _change(parent, (name, node))
        if not isinstance(node, FileNode):
            raise DiskError(DiskErrorKind.NOT_FOUND, "open", path)
        self._opened.add(path)
        return ModelFile(path, node, self._machine)

    def opened(self, path: str) -> ModelFile | None:
        if path not in self._opened or not self.keeps_open():
            return None
        try:
            parent, name = self._parent("open", path)
        except DiskError:
            return None
        node = parent.entries.get(name)
        return ModelFile(path, node, self._machine) if isinstance(node, FileNode) else None

    def size(self, file: DiskFile) -> int:
        self._check("size", file.path)
        return len(_node(file).content)

    def read_at(self, file: DiskFile, position: int, length: int) -> bytes:
        assert position >= 0
        assert length >= 0
        self._check("read_at", file.path)
        return bytes(memoryview(_node(file).content)[position : position + length])

    def load(self, file: DiskFile, position: int, length: int) -> int:
        self._check("read_at", file.path)
        return max(0, min(length, len(_node(file).content) - position))

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
                self.losses["writes on a full disk"] += 1
                self.on_full()
        is_interrupted = self.interrupt_after == 0
        if is_interrupted and self.chance is not None:
            byte_count = self.chance.randint(0, byte_count)
            self.losses["writes broken off"] += 0 < byte_count < len(data)
        if byte_count and not (is_interrupted and self.chance is None):
            node.change(position, data[:byte_count])
            node.modified_ms = self.wall_ms()
        self._interrupt()
        if kind is not None:
            raise DiskError(kind, "write_at", file.path)

    def truncate(self, file: DiskFile, byte_count: int) -> None:
        self._check("truncate", file.path)
        self._interrupt()
        _node(file).change(byte_count, None)

    def flush(self, file: DiskFile) -> None:
        self._interrupt()
        fault = self._due("flush", file.path)
        if fault is None:
            _node(file).flush()
            return
        _node(file).fail_to_flush(self.chance)
        raise DiskError(fault.kind, "flush", file.path)

    def flush_directory(self, path: str) -> None:
        self._check("flush_directory", path)
        self._interrupt()
        directory = self._directory("flush_directory", path)
        directory.durable = dict(directory.entries)
        directory.unflushed.clear()

    def watch_volume(self, path: str) -> None:
        """Everything is watched."""

    def is_one_volume(self, path: str, directories: Sequence[str]) -> bool:
        return self.flushes_volumes

    def flush_volume(self, path: str) -> None:
        self._interrupt()
        fault = self._due("flush_volume", path) or self._due("flush", path)
        _flush_below(self._root, self.chance, has_failed=fault is not None)
        if fault is not None:
            raise DiskError(fault.kind, "flush volume", path)

    def read_file(self, path: str) -> bytes:
        file = self.open(path)
        return self.read_at(file, 0, self.size(file))

    def write_file(self, path: str, content: bytes) -> None:
        file = self.open(path, create=True)
        self.truncate(file, 0)
        self.write_at(file, 0, (content,))

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
        replaced = parent.entries.get(target_name)
        if isinstance(replaced, _DirectoryNode) and replaced.entries:
            raise DiskError(DiskErrorKind.IO, "rename", target)  # ENOTEMPTY
        self._interrupt()
        self._opened -= {source, target}
        _change(parent, (source_name, None), (target_name, parent.entries[source_name]))

    def remove(self, path: str) -> None:
        self._check("remove", path)
        parent, name = self._parent("remove", path)
        if not isinstance(parent.entries.get(name), FileNode):
            raise DiskError(DiskErrorKind.NOT_FOUND, "remove", path)
        self._interrupt()
        self._opened.discard(path)
        _change(parent, (name, None))

    def exists(self, path: str) -> bool:
        try:
            parent, name = self._parent("exists", path)
        except DiskError:
            return False
        return name in parent.entries

    def modified_ms(self, path: str) -> int:
        self._check("modified_ms", path)
        return max(_node(self.open(path)).modified_ms, self.modified_wall_ms)

    def space(self, path: str) -> tuple[int, int]:
        self._check("space", path)
        self._directory("space", path)
        total = VOLUME_BYTES if self.capacity_bytes is None else self.capacity_bytes
        return total, max(total - self.used_bytes(), 0)

    def list(self, path: str) -> list[DirectoryEntry]:
        self._check("list", path)
        entries = sorted(self._directory("list", path).entries.items())
        return [
            DirectoryEntry(name, len(node.content), False)
            if isinstance(node, FileNode)
            else DirectoryEntry(name, 0, True)
            for name, node in entries
        ]

    def make_directory(self, path: str) -> None:
        self._check("make_directory", path)
        parent, name = self._parent("make_directory", path)
        node = parent.entries.get(name)
        if node is None:
            self._interrupt()
            _change(parent, (name, _DirectoryNode()))
        else:
            assert isinstance(node, _DirectoryNode), f"{path} is a file"

    def remove_directory(self, path: str) -> None:
        self._check("remove_directory", path)
        assert not self._directory("remove_directory", path).entries, f"{path} is not empty"
        parent, name = self._parent("remove_directory", path)
        self._interrupt()
        _change(parent, (name, None))

    # --- inside ---

    def _interrupt(self) -> None:
        if self.interrupt_after is None:
            return
        if self.interrupt_after == 0:
            self.interrupt_after = None
            raise MachineStopped
        self.interrupt_after -= 1

    def _due(self, operation: str, path: str) -> Fault | None:
        for fault in self.faults:
            if fault.operation == operation and fault.path_part in path and fault.times > 0:
                if fault.skip > 0:
                    fault.skip -= 1
                    continue
                fault.times -= 1
                fault.hits += 1
                fault.on_hit()
                return fault
        return None

    def _check(self, operation: str, path: str) -> None:
        fault = self._due(operation, path) if self.faults else None
        if fault is not None:
            raise DiskError(fault.kind, operation, path)

    def _directory(self, operation: str, path: str) -> _DirectoryNode:
        node: FileNode | _DirectoryNode | None = self._root
        for name in filter(None, path.split("/")):
            node = node.entries.get(name) if isinstance(node, _DirectoryNode) else None
        if not isinstance(node, _DirectoryNode):
            raise DiskError(DiskErrorKind.NOT_FOUND, operation, path)
        return node

    def _parent(self, operation: str, path: str) -> tuple[_DirectoryNode, str]:
        parent, _, name = path.rpartition("/")
        return self._directory(operation, parent), name

    def _lose_in(self, directory: _DirectoryNode, random: Random) -> None:
        for change in directory.unflushed:
            self.losses["names not flushed"] += len(change)
        lost = _lost_changes(directory, random)
        for change in directory.unflushed:
            if any(change is each for each in lost):
                self.losses["names lost"] += len(change)
                continue
            for name, node in change:
                if node is None:
                    directory.durable.pop(name, None)
                else:
                    directory.durable[name] = node
        directory.unflushed.clear()
        directory.entries = dict(directory.durable)
        for _, node in sorted(directory.entries.items()):
            if isinstance(node, FileNode):
                node.durable = lose_unflushed(node, random, self.losses)
                node.content = bytearray(node.durable)
                node.unflushed.clear()
                node.is_flush_failed = False
            else:
                self._lose_in(node, random)


def _lost_changes(
    directory: _DirectoryNode, random: Random
) -> list[list[tuple[str, FileNode | _DirectoryNode | None]]]:
    """Which changes of names the power cut undoes: a tail of the journal, or some here and there."""
    changes = directory.unflushed
    if not changes:
        return []
    if random.random() < 0.5:
        return changes[random.randint(0, len(changes)) :]
    survival = random.choice((0.2, 0.5, 0.8))
    lost = []
    kept_names: set[str] = set()
    is_creation_kept = False
    for change in reversed(changes):
        names = [name for name, _ in change]
        is_creation = len(change) == 1 and change[0][1] is not None
        # What a later change that survives was made of survives with it.
        is_needed = (is_creation and is_creation_kept) or any(name in kept_names for name in names)
        if is_needed or random.random() < survival:
            kept_names.update(names)
            is_creation_kept |= is_creation
        else:
            lost.append(change)
    return lost


def _change(directory: _DirectoryNode, *changes: tuple[str, FileNode | _DirectoryNode | None]) -> None:
    directory.unflushed.append(list(changes))
    for name, node in changes:
        if node is None:
            directory.entries.pop(name, None)
        else:
            directory.entries[name] = node


def _files_in(directory: _DirectoryNode) -> list[FileNode]:
    files = []
    for _, node in sorted(directory.entries.items()):
        files += [node] if isinstance(node, FileNode) else _files_in(node)
    return files


def _flush_below(directory: _DirectoryNode, chance: Random | None, *, has_failed: bool) -> None:
    """The names last, whether or not a content did not."""
    for _, node in sorted(directory.entries.items()):
        if isinstance(node, _DirectoryNode):
            _flush_below(node, chance, has_failed=has_failed)
        elif not has_failed:
            node.flush()
        elif node.unflushed:
            node.fail_to_flush(chance)
    directory.durable = dict(directory.entries)
    directory.unflushed.clear()


def _node(file: DiskFile) -> FileNode:
    assert isinstance(file, ModelFile), "a file of another disk"
    return file.node
