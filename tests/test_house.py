"""The structure of the tree, as far as a test can hold it: a ratchet. What is over a bound is listed with its reason;
the lists only shrink.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PRODUCTION = ("barnabas", "cli", "pipeline", "services")
WRITTEN = (*PRODUCTION, "bench", "scripts", "tests")

MODULES_PER_FOLDER_MAX = 25
CONSTRUCTOR_PARAMETERS_MAX = 8
FILE_LINES_MAX = 500
CORE_FILE_LINES_MIN = 40

LARGE_FOLDERS = {
    "barnabas/wire/messages": "an index: a module for each message of Kafka's protocol",
    "services/gateway/barnabas_gateway/core/handlers": "an index: a module for each API key",
}
LARGE_CONSTRUCTORS: frozenset[str] = frozenset()
LONG_FILES: frozenset[str] = frozenset()
TASK_OWNER = "barnabas/runtime/loop/background.py"
SMALL_CORE_FILES = {
    "services/controller/barnabas_controller/core/state/cluster_upgrade.py": "writes the format",
    "services/controller/barnabas_controller/core/state/settings.py": "configuration",
    "services/gateway/barnabas_gateway/core/backends/logstores_meter.py": "its package has no other metrics",
    "services/gateway/barnabas_gateway/core/model/cluster_view.py": "what handlers see of the cluster",
    "services/gateway/barnabas_gateway/core/model/error_messages.py": "one rule, for all handlers",
    "services/gateway/barnabas_gateway/core/model/log_dir_paths.py": "one rule, for two handlers",
    "services/gateway/barnabas_gateway/core/model/topic_names.py": "one rule, for all handlers",
    "services/logstore/barnabas_logstore/core/administration/replica_moves.py": "an index: a module for each request",
    "services/logstore/barnabas_logstore/core/administration/work.py": "what the modules of that index share",
    "services/logstore/barnabas_logstore/core/coordinator/transactions/config.py": "plain values",
    "services/logstore/barnabas_logstore/core/coordinator/groups/config.py": "configuration",
    "services/logstore/barnabas_logstore/core/coordinator/groups/meter.py": "counters",
    "services/logstore/barnabas_logstore/core/coordinator/groups/subscription.py": "a parser of one field",
    "services/logstore/barnabas_logstore/core/storage/log/features/log_start.py": "a feature of a log",
    "pipeline/barnabas_pipeline/core/errors.py": "errors",
    "pipeline/barnabas_pipeline/core/freshness.py": "one measure",
}
BANNED_WORDS = frozenset({"doors", "holding", "joint", "journal", "rooms", "survey", "told"})
"""Of a dialect that the names had; docs/glossary.md has the words instead."""
BANNED_NAME = re.compile(r"[A-Za-z]*Room$|Journal$|Slot$")
"""`FollowedSlot` and `_Slot` are places in an array, `told_by` is a field of the operators' API."""
ALLOWED_NAMES = frozenset({"FollowedSlot", "_Slot", "told_by"})
BANNED_IN_TEST_NAMES = BANNED_WORDS | {"anew", "likewise", "nobody", "whoever"}


@cache
def sources(*folders: str) -> tuple[str, ...]:
    """Paths of the modules that are written by hand."""
    found = sorted(path for folder in folders for path in (ROOT / folder).rglob("*.py"))
    return tuple([str(path.relative_to(ROOT)) for path in found if not _is_generated(path)])


def _is_generated(path: Path) -> bool:
    return path.stem.endswith(("_pb2", "_pb2_grpc")) or path.parent.name == "generated"


@dataclass(slots=True, frozen=True)
class Facts:
    """What the tests want to know of one module."""

    names: frozenset[str]
    """Every identifier."""
    classes: frozenset[str]
    tests: frozenset[str]
    constructors: tuple[tuple[str, int], ...]
    """Each class that has an `__init__`, with the number of its parameters, `self` left out."""
    open_listings: tuple[int, ...]
    unowned_starts: tuple[int, ...]


@cache
def facts(path: str) -> Facts:
    return facts_of((ROOT / path).read_text(), path)


def facts_of(source: str, path: str = "") -> Facts:
    """Parse a module once for all tests."""
    nodes = tuple(ast.walk(ast.parse(source)))
    names: set[str] = set()
    classes: set[str] = set()
    tests: set[str] = set()
    constructors: list[tuple[str, int]] = []
    for node in nodes:
        for attribute in ("name", "id", "attr", "arg"):
            value = getattr(node, attribute, None)
            if isinstance(value, str):
                names.add(value)
        if isinstance(node, ast.ClassDef):
            classes.add(node.name)
            constructors += [(f"{path}:{node.name}", count) for count in _constructor_parameters(node)]
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_"):
            tests.add(node.name)
    return Facts(
        frozenset(names),
        frozenset(classes),
        frozenset(tests),
        tuple(constructors),
        tuple(_open_listings(nodes)),
        tuple(_unowned_starts(nodes)),
    )


def _constructor_parameters(node: ast.ClassDef) -> Iterator[int]:
    for method in node.body:
        if isinstance(method, ast.FunctionDef) and method.name == "__init__":
            given = method.args
            yield len(given.posonlyargs) + len(given.args) + len(given.kwonlyargs) - 1


def lines_of(path: str) -> int:
    return len((ROOT / path).read_text().splitlines())


def words_of(name: str) -> set[str]:
    return {word.lower() for word in re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])", name)}


def test_a_folder_has_few_modules() -> None:
    modules = Counter(str(Path(path).parent) for path in sources(*PRODUCTION) if not path.endswith("__init__.py"))
    large = {folder for folder, count in modules.items() if count > MODULES_PER_FOLDER_MAX}
    assert large == set(LARGE_FOLDERS)


def test_a_constructor_has_few_parameters() -> None:
    constructors = [each for path in sources(*WRITTEN) for each in facts(path).constructors]
    assert {name for name, count in constructors if count > CONSTRUCTOR_PARAMETERS_MAX} == LARGE_CONSTRUCTORS


def test_no_file_is_long() -> None:
    assert {path for path in sources(*WRITTEN) if lines_of(path) > FILE_LINES_MAX} == LONG_FILES


def _structured_groups(nodes: Sequence[ast.AST]) -> set[str]:
    """Return the names of task groups, which await what they start."""
    return {
        item.optional_vars.id
        for node in nodes
        if isinstance(node, ast.AsyncWith)
        for item in node.items
        if ast.unparse(item.context_expr) == "asyncio.TaskGroup()" and isinstance(item.optional_vars, ast.Name)
    }


def _unowned_starts(nodes: Sequence[ast.AST]) -> list[int]:
    """Return the lines that start a task or a thread whose exceptions may be read by no one."""
    groups = _structured_groups(nodes)
    found = []
    for node in nodes:
        if isinstance(node, ast.Attribute) and node.attr == "create_task":
            if not (isinstance(node.value, ast.Name) and node.value.id in groups):
                found.append(node.lineno)
        elif isinstance(node, ast.Call):
            name = ast.unparse(node.func).rpartition(".")[2]
            if name in ("create_task", "ensure_future", "Thread", "Timer", "start_new_thread") and not (
                isinstance(node.func, ast.Attribute) and name == "create_task"
            ):
                found.append(node.lineno)
    return found


def _open_listings(nodes: Sequence[ast.AST]) -> list[int]:
    """Return the lines that use `scandir` other than as the context of a `with`, which closes it."""
    closed = {
        id(item.context_expr.func)
        for node in nodes
        if isinstance(node, ast.With)
        for item in node.items
        if isinstance(item.context_expr, ast.Call)
    }
    return [
        node.lineno
        for node in nodes
        if "scandir" in (getattr(node, "attr", ""), getattr(node, "id", ""), getattr(node, "name", ""))
        and id(node) not in closed
    ]


def test_listings_of_directories_are_closed() -> None:
    """The warning about one that is not is ignored (`pyproject.toml`), since pytest itself causes it."""
    checked = sources(*WRITTEN)
    assert len(checked) > 1_000
    found = {f"{path}:{line}" for path in checked for line in facts(path).open_listings}
    assert found == set()


@pytest.mark.parametrize(
    "source", ["entries = os.scandir(path)", "from os import scandir", "for entry in os.scandir(path):\n    pass"]
)
def test_an_open_listing_is_found(source: str) -> None:
    assert facts_of(source).open_listings


def test_every_task_and_thread_has_an_owner() -> None:
    """`barnabas.runtime.loop.background` starts them, and reads what they raise."""
    services = [path for path in sources("barnabas", "cli", "services") if path != TASK_OWNER]
    found = {f"{path}:{line}" for path in services for line in facts(path).unowned_starts}
    assert found == set()


@pytest.mark.parametrize(
    "source",
    [
        "asyncio.create_task(work())",
        "task = self._loop.create_task(work())",
        "tasks.create_task(work())",
        "start = loop.create_task",
        "from asyncio import create_task\ncreate_task(work())",
        "asyncio.ensure_future(work())",
        "threading.Thread(target=work).start()",
        "from threading import Thread\nThread(target=work).start()",
    ],
)
def test_a_start_without_an_owner_is_found(source: str) -> None:
    assert facts_of(source).unowned_starts


def test_a_group_awaits_what_it_starts() -> None:
    source = "async def run():\n    async with asyncio.TaskGroup() as tasks:\n        tasks.create_task(work())"
    assert facts_of(source).unowned_starts == ()
    assert facts_of("thread: threading.Thread | None = None").unowned_starts == ()


def test_no_module_of_a_core_is_too_small_to_be_one() -> None:
    cores = [path for path in sources(*PRODUCTION) if "/core/" in path and not path.endswith("__init__.py")]
    handlers = "services/gateway/barnabas_gateway/core/handlers/"
    small = {path for path in cores if lines_of(path) < CORE_FILE_LINES_MIN and not path.startswith(handlers)}
    assert small == set(SMALL_CORE_FILES)


@pytest.mark.parametrize("folder", PRODUCTION)
def test_no_name_is_of_the_old_dialect(folder: str) -> None:
    found = set()
    for path in sources(folder):
        for name in facts(path).names - ALLOWED_NAMES:
            if words_of(name) & BANNED_WORDS or BANNED_NAME.match(name):
                found.add(f"{path}: {name}")
    assert found == set()


@pytest.mark.parametrize("folder", ["bench", "scripts", "tests"])
def test_no_test_or_class_has_a_name_of_the_old_dialect(folder: str) -> None:
    found = set()
    for path in sources(folder):
        tests = {name for name in facts(path).tests if words_of(name) & BANNED_IN_TEST_NAMES}
        classes = {name for name in facts(path).classes if words_of(name) & BANNED_WORDS or BANNED_NAME.match(name)}
        found |= {f"{path}: {name}" for name in tests | classes}
    assert found == set()
