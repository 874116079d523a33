"""Every target in `make test`: what was kept, and inputs that Hypothesis finds; work and memory measured.

An input is made from a seed, as in `make fuzz`: valid by structure, then damaged. Hypothesis names the seed that fails.
"""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.compiled import COUNTS, interpreted_only
from tests.fuzz.corpus import kept_inputs
from tests.fuzz.meter import TooMuchMemory, TooMuchWork, measured
from tests.fuzz.mutations import fresh_input
from tests.fuzz.target import Target
from tests.fuzz.targets import NAMES, load

MEASURED_EVERY = 10

TARGETS = [load(name) for name in NAMES]
every_target = pytest.mark.parametrize("target", TARGETS, ids=NAMES)


@every_target
def test_kept_inputs(target: Target) -> None:
    inputs = kept_inputs(target.name)
    assert inputs, f"python -m tests.fuzz --target {target.name} --keep makes some"
    for number, data in enumerate(inputs):
        if number % MEASURED_EVERY:
            target.check(data)
        else:
            measured(target, data)


@every_target
@given(seed=st.integers(0, 2**63))
def test_damaged_inputs(target: Target, seed: int) -> None:
    measured(target, fresh_input(Random(seed), target))


@every_target
@given(data=st.binary(max_size=200))
def test_any_bytes(target: Target, data: bytes) -> None:
    target.check(data)


@every_target
def test_valid_inputs_are_made_the_same_by_the_same_seed(target: Target) -> None:
    assert target.build(Random(7)) == target.build(Random(7))


@interpreted_only(COUNTS)
def test_the_meter_sees_a_loop() -> None:
    from barnabas.wire.frames import FrameSplitter

    def check(_data: bytes) -> None:
        while True:
            FrameSplitter(1).feed(b"")

    with pytest.raises(TooMuchWork):
        measured(Target("loop", check, lambda _: b"", lines_max=1000), b"")


def test_the_meter_sees_memory() -> None:
    def check(_data: bytes) -> None:
        assert len(bytearray(2000)) == 2000

    with pytest.raises(TooMuchMemory):
        measured(Target("hoard", check, lambda _: b"", memory_bytes_max=1000), b"")
