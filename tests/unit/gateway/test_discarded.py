"""What a long request leaves behind is freed a little at a time, and what is shared is left alone."""

from __future__ import annotations

import weakref
from itertools import pairwise

from barnabas_gateway.core.connections.discarded import Discarded


class Element:
    __slots__ = ("__weakref__", "others")

    def __init__(self) -> None:
        self.others: list[Element] = []


def tree(elements: int) -> tuple[Element, list[weakref.ref[Element]]]:
    root = Element()
    root.others = [Element() for _ in range(elements)]
    return root, [weakref.ref(each) for each in root.others]


def alive(references: list[weakref.ref[Element]]) -> int:
    return sum(each() is not None for each in references)


def test_each_turn_frees_its_share_until_nothing_is_left() -> None:
    discarded = Discarded()
    root, references = tree(1_000)
    discarded.add(root)
    del root
    left = [1_000]
    while discarded.has_work():
        discarded.free(100)
        left.append(alive(references))
    assert left[-1] == 0
    assert max(before - after for before, after in pairwise(left)) <= 100


def test_what_something_else_refers_to_keeps_all_its_parts() -> None:
    discarded = Discarded()
    root, references = tree(10)
    shared = root.others[3]
    shared.others = [Element()]
    discarded.add(root)
    del root
    while discarded.has_work():
        discarded.free(100)
    assert alive(references) == 1
    assert len(shared.others) == 1


def test_what_is_still_used_is_forgotten_and_not_taken_apart() -> None:
    discarded = Discarded()
    root, references = tree(10)
    discarded.add(root)
    discarded.free(100)
    assert not discarded.has_work()
    assert alive(references) == len(root.others) == 10


def test_work_that_was_given_up_ends_when_it_is_freed() -> None:
    ended: list[bool] = []

    def work() -> object:
        elements = [Element() for _ in range(1_000)]
        try:
            yield elements
        finally:
            ended.append(True)

    discarded = Discarded()
    steps = work()
    next(steps)
    discarded.add(steps)
    del steps
    discarded.free(10)
    assert ended == [True]
    assert discarded.has_work()
