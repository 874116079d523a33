"""What is watched at which logstore, and what has to be sent to the logstores about it: partitions, and groups."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from typing import Final, Generic, Protocol, TypeVar


class Watch(Protocol):
    """Something whose state one logstore publishes, and the waits for it."""

    @property
    def node_id(self) -> int: ...

    @property
    def live(self) -> int:
        """The number of waits."""

    def lose_sight(self) -> None:
        """The logstore can't be reached, and its state may change unseen."""


WATCHES_PER_TURN: Final = 1_000
"""In one message to a logstore, which has to answer each with a state."""

K = TypeVar("K")
W = TypeVar("W", bound=Watch)


class WatchTable(Generic[K, W]):
    """The watches of one kind, of every logstore. `end_turn` returns what is new for the logstores."""

    __slots__ = ("_by_node", "_idle", "_make", "_starting", "_up")

    def __init__(self, make: Callable[[int, K], W]) -> None:
        """`make` creates the watch of a key at a node."""
        self._make = make
        self._by_node: dict[int, dict[K, W]] = {}
        self._up: set[int] = set()
        # Both by node; what is to be watched from this turn on, and what some wait has left.
        self._starting: dict[int, dict[K, W]] = {}
        self._idle: dict[int, dict[K, W]] = {}

    def __len__(self) -> int:
        return sum(len(watches) for watches in self._by_node.values())

    def __iter__(self) -> Iterator[W]:
        """Yield every watch that was there when its node's turn came; between two of them others may come and go."""
        for node_id in sorted(self._by_node):
            yield from list(self._by_node.get(node_id, {}).values())

    def watch(self, node_id: int, key: K) -> W:
        """Return the watch of a key; a new one is sent to its logstore at the end of the turn."""
        watches = self._by_node.get(node_id)
        if watches is None:
            watches = self._by_node[node_id] = {}
        found = watches.get(key)
        if found is None:
            found = watches[key] = self._make(node_id, key)
            self._starting.setdefault(node_id, {})[key] = found
            # If no wait stays, the end of the turn finds it here.
            self._idle.setdefault(node_id, {})[key] = found
        return found

    def find(self, node_id: int, key: K) -> W | None:
        watches = self._by_node.get(node_id)
        return None if watches is None else watches.get(key)

    def left(self, key: K, watch: W) -> None:
        """The last wait has left `watch`: it ends with the turn unless another one comes.

        A condition that got its code in an earlier turn may name a watch that has ended since; then nothing happens.
        """
        if self.find(watch.node_id, key) is watch:
            self._idle.setdefault(watch.node_id, {})[key] = watch

    def logstore_up(self, node_id: int) -> None:
        """A new stream to the logstore: every watch has to be sent on it."""
        self._up.add(node_id)
        watches = self._by_node.get(node_id)
        if watches:
            self._starting[node_id] = dict(watches)

    def logstore_down(self, node_id: int) -> None:
        self._up.discard(node_id)
        for watch in self._by_node.get(node_id, {}).values():
            watch.lose_sight()

    def end_turn(self) -> tuple[dict[int, list[K]], dict[int, list[K]]]:
        """Return what to watch and what to stop watching, by node; drop watches without waits.

        A watch waits for a later turn only behind many others: its wait is woken by the first state, whenever it comes.
        """
        ending: dict[int, list[K]] = {}
        for node_id, watches in self._idle.items():
            for key, watch in watches.items():
                if watch.live:
                    continue
                del self._by_node[node_id][key]
                announced = self._starting.get(node_id, {}).pop(key, None) is None
                if announced and node_id in self._up:
                    ending.setdefault(node_id, []).append(key)
            if not self._by_node[node_id]:
                del self._by_node[node_id]
        starting: dict[int, list[K]] = {}
        left: dict[int, dict[K, W]] = {}
        for node_id, watches in self._starting.items():
            if not watches or node_id not in self._up:
                continue
            starting[node_id] = list(islice(watches, WATCHES_PER_TURN))
            if len(watches) > WATCHES_PER_TURN:
                for key in starting[node_id]:
                    del watches[key]
                left[node_id] = watches
        self._idle, self._starting = {}, left
        return starting, ending

    def has_work(self) -> bool:
        """Whether watches wait for the next turn; only between two turns."""
        return len(self._starting) > 0
