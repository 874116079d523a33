"""Which tests `make check` runs: the nearest to what changed, and no more than there is time for."""

from __future__ import annotations

from pathlib import Path

import grimp
import pytest

from tests import changed
from tests.changed import affordable, is_test, module_of, nearest_first


@pytest.fixture
def graph() -> grimp.ImportGraph:
    """A test of a core, one of what the core imports, and one of something else."""
    graph = grimp.ImportGraph()
    for importer, imported in [
        ("tests.unit.log.test_segment", "barnabas_logstore.segment"),
        ("barnabas_logstore.log", "barnabas_logstore.segment"),
        ("tests.unit.log.test_log", "barnabas_logstore.log"),
        ("tests.sim.test_simulation", "barnabas_logstore.log"),
        ("tests.unit.wire.test_frames", "barnabas.wire.frames"),
    ]:
        graph.add_import(importer=importer, imported=imported)
    return graph


def test_the_fewer_imports_between_them_the_earlier(graph: grimp.ImportGraph) -> None:
    found = list(nearest_first(graph, ["barnabas_logstore.segment"]))
    assert found == ["tests.unit.log.test_segment", "tests.unit.log.test_log"]


def test_a_changed_test_comes_first(graph: grimp.ImportGraph) -> None:
    found = list(nearest_first(graph, ["barnabas_logstore.log", "tests.unit.wire.test_frames"]))
    assert found == ["tests.unit.wire.test_frames", "tests.unit.log.test_log"]


def test_what_is_gone_or_no_module_is_near_to_nothing(graph: grimp.ImportGraph) -> None:
    assert list(nearest_first(graph, ["barnabas_logstore.gone"])) == []


def test_what_does_not_fit_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(changed, "CPU_SECONDS_MAX", 10.0)
    ledger = {"tests/unit/test_a.py": 6.0, "tests/unit/test_b.py": 5.0, "tests/unit/test_c.py": 4.0}
    modules = ["tests.unit.test_a", "tests.unit.test_b", "tests.unit.test_c"]
    assert affordable(modules, ledger) == (["tests/unit/test_a.py", "tests/unit/test_c.py"], 1)


@pytest.mark.parametrize(
    ("path", "module"),
    [
        ("tests/unit/wire/test_a.py", "tests.unit.wire.test_a"),
        ("a/b/__init__.py", "a.b"),
        ("services/logstore/barnabas_logstore/core/logstore.py", "barnabas_logstore.core.logstore"),
        ("protos/barnabas_protos/__init__.py", "barnabas_protos"),
    ],
)
def test_modules_are_named_as_they_are_imported(path: str, module: str) -> None:
    assert module_of(Path(path)) == module


@pytest.mark.parametrize(
    ("module", "expected"),
    [("tests.unit.a.test_b", True), ("tests.unit.a.support", False), ("tests.integration.test_kill", False)],
)
def test_only_the_modules_of_quick_tests_are_tests(module: str, expected: bool) -> None:
    assert is_test(module) is expected
