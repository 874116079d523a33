"""Dependencies between transactions, and their cycles: Tarjan's strongly connected components, without recursion."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from enum import IntFlag


class Edge(IntFlag):
    WW = 1
    WR = 2
    RW = 4


class DependencyGraph:
    """Nodes are numbers from 0 on."""

    def __init__(self, count: int) -> None:
        self._edges: list[dict[int, Edge]] = [{} for _ in range(count)]

    def add(self, source: int, target: int, kind: Edge) -> None:
        if source != target:
            edges = self._edges[source]
            edges[target] = edges.get(target, Edge(0)) | kind

    def components(self, kinds: Edge) -> Iterator[list[int]]:
        """Yield the strongly connected components of more than one node, by the edges of these kinds alone. Takes
        O(nodes + edges).
        """
        index: dict[int, int] = {}
        low: dict[int, int] = {}
        stack: list[int] = []
        on_stack: set[int] = set()
        for root in range(len(self._edges)):
            if root in index:
                continue
            index[root] = low[root] = len(index)
            stack.append(root)
            on_stack.add(root)
            work = [(root, self._targets(root, kinds, None))]
            while work:
                node, targets = work[-1]
                target = next(targets, None)
                if target is None:
                    work.pop()
                    if work:
                        low[work[-1][0]] = min(low[work[-1][0]], low[node])
                    if low[node] == index[node]:
                        component = self._pop(node, stack, on_stack)
                        if len(component) > 1:
                            yield component
                elif target not in index:
                    index[target] = low[target] = len(index)
                    stack.append(target)
                    on_stack.add(target)
                    work.append((target, self._targets(target, kinds, None)))
                elif target in on_stack:
                    low[node] = min(low[node], index[target])

    def _targets(self, node: int, kinds: Edge, allowed: set[int] | None) -> Iterator[int]:
        return (
            target
            for target, kind in self._edges[node].items()
            if kind & kinds and (allowed is None or target in allowed)
        )

    @staticmethod
    def _pop(node: int, stack: list[int], on_stack: set[int]) -> list[int]:
        component: list[int] = []
        while True:
            each = stack.pop()
            on_stack.discard(each)
            component.append(each)
            if each == node:
                return component

    def path(self, source: int, target: int, kinds: Edge, among: set[int]) -> list[int] | None:
        """Return a shortest path by edges of these kinds, both ends included; None: there is none."""
        before: dict[int, int] = {source: source}
        waiting = deque([source])
        while waiting:
            node = waiting.popleft()
            if node == target:
                found = [node]
                while found[-1] != source:
                    found.append(before[found[-1]])
                return found[::-1]
            for each in self._targets(node, kinds, among):
                if each not in before:
                    before[each] = node
                    waiting.append(each)
        return None

    def cycle(self, component: list[int], first: Edge, rest: Edge) -> list[int] | None:
        """Return a cycle within a component that begins with an edge of kind `first` and has none but `rest` else; the
        first node is repeated at the end. None: there is none.
        """
        among = set(component)
        for source in sorted(component):
            for target in self._targets(source, first, among):
                path = self.path(target, source, rest, among)
                if path is not None:
                    return [source, *path]
        return None
