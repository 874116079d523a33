"""A failing program made small: lives and operations are left out as long as what remains still fails."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

from tests.crash.programs import LifePlan, Program
from tests.crash.run import run_program

Part = TypeVar("Part")

RUNS_MAX = 600


class _Budget:
    """Each try is a run; when there are no more, what has been reached is taken."""

    def __init__(self) -> None:
        self.left = RUNS_MAX

    def fails(self, program: Program) -> bool:
        if self.left == 0:
            return False
        self.left -= 1
        return bool(run_program(program).failure)


def shrink(program: Program) -> Program:
    """The smallest program found that fails too, perhaps in another way."""
    budget = _Budget()
    while True:
        before = program
        program = _shrink_lives(program, budget)
        for index in range(len(program.lives)):
            program = _shrink_life(program, index, budget)
        if program == before or budget.left == 0:
            return program


def _shrink_lives(program: Program, budget: _Budget) -> Program:
    return replace(program, lives=_without(program.lives, lambda lives: budget.fails(replace(program, lives=lives))))


def _shrink_life(program: Program, index: int, budget: _Budget) -> Program:
    def with_life(life: LifePlan) -> Program:
        return replace(program, lives=(*program.lives[:index], life, *program.lives[index + 1 :]))

    life = program.lives[index]
    operations = _without(life.operations, lambda kept: budget.fails(with_life(replace(life, operations=kept))))
    return with_life(replace(life, operations=operations))


def _without(parts: tuple[Part, ...], fails: Callable[[tuple[Part, ...]], bool]) -> tuple[Part, ...]:
    """`parts` less those that are not needed to fail: first in large pieces, then in small ones."""
    size = max(len(parts) // 2, 1)
    while parts:
        start = 0
        while start < len(parts):
            fewer = parts[:start] + parts[start + size :]
            if fails(fewer):
                parts = fewer
            else:
                start += size
        if size == 1:
            break
        size //= 2
    return parts
