"""With compiled cores a read that passes a gap which compaction left was a TypeError, in the midst of a turn.

An effect declares the type of its result as a variable of its class. mypyc forgets that it is none of the object's
fields, so that `dataclasses.replace` gave it to the constructor.
"""

from __future__ import annotations

import dataclasses

import pytest

from barnabas_logstore.core.storage import effects
from barnabas_logstore.core.storage.effects import ReadBatchesEffect
from barnabas_logstore.core.storage.file_parts import FilePart
from tests.sim.disk_model import DiskModel

EFFECTS = sorted(
    (each for each in vars(effects).values() if isinstance(each, type) and hasattr(each, "result")),
    key=lambda each: each.__name__,
)


@pytest.mark.parametrize("effect", EFFECTS, ids=lambda each: str(each.__name__))
def test_no_effect_has_its_result_among_its_fields(effect: type) -> None:
    assert dataclasses.is_dataclass(effect)
    assert "result" not in {field.name for field in dataclasses.fields(effect)}


def test_there_are_effects() -> None:
    assert len(EFFECTS) > 15


def test_an_effect_is_copied_with_another_part() -> None:
    file = DiskModel().open("/00000000000000000000.log", create=True)
    names = [field.name for field in dataclasses.fields(ReadBatchesEffect)]
    given = dict.fromkeys(names, 0) | {"part": FilePart(file, 0, 100), "min_one_batch": True}
    effect = ReadBatchesEffect(**given)  # type: ignore[arg-type]
    copied = dataclasses.replace(effect, part=dataclasses.replace(effect.part, position=50))
    assert (copied.part.position, effect.part.position) == (50, 0)
