"""A hierarchical timing wheel with ticks of 1 ms (Varghese & Lauck; Kafka's `org.apache.kafka.server.util.timer`).

Each level has 256 slots, and a slot of one level spans a whole turn of the level below. Kafka's wheels have 20; with
256 a task of Kafka's default request timeout (30 s) is moved once on its way down instead of three times, which is
what a move costs in Python. Levels appear when a deadline needs them, so no deadline is out of range.

A task sits at the level of the highest byte in which its deadline differs from the wheel's time. Every slot in use
therefore lies ahead of the hand, the lowest level in use holds the nearest deadlines, and one integer of occupied
bits per level finds the next slot without walking over empty ones.
"""

from __future__ import annotations

SLOT_BITS = 8
SLOTS = 1 << SLOT_BITS
SLOT_MASK = SLOTS - 1


class TimerTask:
    """What a wheel holds: a deadline, and the links of the slot's list while it is in one."""

    __slots__ = ("deadline_ms", "next_task", "previous_task")

    def __init__(self, deadline_ms: int) -> None:
        self.deadline_ms = deadline_ms
        self.next_task: TimerTask | None = None
        self.previous_task: TimerTask | None = None


class _Slot(TimerTask):
    """The root of a circular list of tasks; it links to itself when empty."""

    __slots__ = ("bit", "level")

    def __init__(self, level: _Level, index: int) -> None:
        super().__init__(-1)
        self.level = level
        self.bit = 1 << index
        self.next_task = self
        self.previous_task = self


class _Level:
    __slots__ = ("occupied", "shift", "slots")

    def __init__(self, shift: int) -> None:
        self.shift = shift
        self.occupied = 0
        self.slots = [_Slot(self, index) for index in range(SLOTS)]


class TimingWheel:
    """Deadlines in, expired tasks out; `add` and `cancel` are O(1), and no clock is read here."""

    __slots__ = ("_levels", "_size", "_taken", "now_ms")

    def __init__(self, now_ms: int) -> None:
        self.now_ms = now_ms
        self._levels = [_Level(0)]
        self._taken = _Slot(_Level(0), 0)
        """The tasks of the slot that the hand is at, until each has expired or moved to a lower level."""
        self._size = 0

    def __len__(self) -> int:
        return self._size

    def add(self, task: TimerTask) -> None:
        """Hold `task` until its deadline; one that has passed already expires at the next `advance`."""
        assert task.next_task is None, "a task is in one slot at a time"
        self._size += 1
        self._place(task)

    def cancel(self, task: TimerTask) -> bool:
        """Remove `task`. Return False if it is not in the wheel (expired or cancelled before)."""
        following, previous = task.next_task, task.previous_task
        if following is None or previous is None:
            return False
        _unlink(task)
        self._size -= 1
        if following is previous and isinstance(following, _Slot):
            following.level.occupied &= ~following.bit
        return True

    def next_deadline_ms(self) -> int | None:
        """Return when to call `advance` next, None if empty: never later than the nearest deadline, and earlier only to
        turn a higher level (at most once per 256 ms)."""
        if self._taken.next_task is not self._taken:
            return self.now_ms
        for level in self._levels:
            if level.occupied:
                return self._slot_start_ms(level)
        return None

    def advance(self, now_ms: int, tasks_max: int) -> list[TimerTask]:
        """Move the hand to `now_ms` (never back) and remove every task with deadline_ms <= now_ms, earliest first.

        So many tasks at most are looked at; if there are more, `next_deadline_ms` is not after `now_ms`, and the next
        call goes on.
        """
        expired: list[TimerTask] = []
        taken = self._taken
        while True:
            task = taken.next_task
            assert task is not None
            if task is not taken:
                if tasks_max <= 0:
                    break
                tasks_max -= 1
                _unlink(task)
                if task.deadline_ms <= self.now_ms:
                    expired.append(task)
                else:
                    self._place(task)
                continue
            level = self._lowest_level()
            if level is None or (start_ms := self._slot_start_ms(level)) > now_ms:
                self.now_ms = max(self.now_ms, now_ms)
                break
            self.now_ms = start_ms
            _move_lowest_slot(level, taken)
        self._size -= len(expired)
        return expired

    def _lowest_level(self) -> _Level | None:
        for level in self._levels:
            if level.occupied:
                return level
        return None

    def _place(self, task: TimerTask) -> None:
        now_ms = self.now_ms
        deadline_ms = task.deadline_ms if task.deadline_ms > now_ms else now_ms
        ahead = now_ms ^ deadline_ms
        index = 0 if ahead < SLOTS else (ahead.bit_length() - 1) // SLOT_BITS
        while index >= len(self._levels):
            self._levels.append(_Level(len(self._levels) * SLOT_BITS))
        level = self._levels[index]
        slot = level.slots[(deadline_ms >> level.shift) & SLOT_MASK]
        last = slot.previous_task
        assert last is not None
        last.next_task = task
        task.previous_task = last
        task.next_task = slot
        slot.previous_task = task
        level.occupied |= slot.bit

    def _slot_start_ms(self, level: _Level) -> int:
        index = (level.occupied & -level.occupied).bit_length() - 1
        above = level.shift + SLOT_BITS
        return (self.now_ms >> above << above) | (index << level.shift)


def _unlink(task: TimerTask) -> None:
    following, previous = task.next_task, task.previous_task
    assert following is not None
    assert previous is not None
    previous.next_task = following
    following.previous_task = previous
    task.next_task = task.previous_task = None


def _move_lowest_slot(level: _Level, to: _Slot) -> None:
    """Move all tasks of a level's lowest slot to an empty one, in their order."""
    slot = level.slots[(level.occupied & -level.occupied).bit_length() - 1]
    level.occupied &= ~slot.bit
    first, last = slot.next_task, slot.previous_task
    assert first is not None
    assert last is not None
    if first is not slot:
        to.next_task, to.previous_task = first, last
        first.previous_task = last.next_task = to
    slot.next_task = slot.previous_task = slot
