"""The pages name real things, and the wait graph has no cycle.

A file, function, method or config key that moves takes its mention in docs/ along.
"""

from __future__ import annotations

import ast
import dataclasses
import re
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import msgspec
import pytest

from barnabas.cluster.topic_config import TopicConfig
from barnabas_controller.shell.config import ControllerConfig
from barnabas_gateway.shell.config import GatewayProperties
from barnabas_logstore.shell.config import LogstoreSettings
from barnabas_purgatory.shell.config import PurgatoryConfig

ROOT = Path(__file__).parents[3]
PAGES = sorted((ROOT / "docs").rglob("*.md"))
# These speak of our own code and of today's only; a decision may well name a class of Kafka's.
ARCHITECTURE = ROOT / "docs/architecture.md"
BYTES_MAX = 60_000
"""A newcomer reads it on the first day."""
DESCRIPTIONS = [ARCHITECTURE, ROOT / "docs/skipped.md"]
SOURCES = ("barnabas", "cli", "services", "pipeline", "bench", "scripts", "tests")

_TOP = r"(?:barnabas|cli|services|protos|pipeline|tests|bench|docs|deploy|scripts)"
_PATH = re.compile(rf"(?<![\w./-]){_TOP}/[\w./-]*\w(?::(?P<name>[A-Za-z_]\w*(?:\.\w+)*))?")
_SERVICE = re.compile(r"`(gateway|logstore|purgatory|controller)/(?=core\b|shell\b|\w+\.py)")
_CODE = re.compile(r"`([^`\n]+)`")
_MEMBER = re.compile(r"([A-Z]\w*[a-z]\w*)\.(\w+)(?:\(.*\))?")
_DIAGRAM = re.compile(r"```mermaid\n(.*?)```", re.DOTALL)
_EDGE = re.compile(r"^  (\w+) --> (\w+)$", re.MULTILINE)
_NODE = re.compile(r"^  (\w+)[\[(]", re.MULTILINE)
_CONFIG_KEY = re.compile(r"[a-z]+(?:\.[a-z]+)+")


@cache
def names_of(path: Path) -> frozenset[str]:
    """Functions, classes, their methods and attributes, and assigned names of a module, dotted."""
    return frozenset(_names(ast.parse(path.read_text()).body, ""))


def _names(body: list[ast.stmt], prefix: str) -> list[str]:
    names: list[str] = []
    for node in body:
        match node:
            case ast.ClassDef():
                names.append(prefix + node.name)
                names += _names(node.body, f"{prefix}{node.name}.")
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                names.append(prefix + node.name)
                if prefix:
                    names += [prefix + each for each in _attributes_set_in(node)]
            case ast.AnnAssign(target=ast.Name(id=name)):
                names.append(prefix + name)
            case ast.Assign():
                names += [prefix + each.id for each in node.targets if isinstance(each, ast.Name)]
    return names


def _attributes_set_in(function: ast.FunctionDef | ast.AsyncFunctionDef) -> list[str]:
    """`x` of `self.x = …`."""
    return [
        each.attr
        for each in ast.walk(function)
        if isinstance(each, ast.Attribute)
        and isinstance(each.ctx, ast.Store)
        and isinstance(each.value, ast.Name)
        and each.value.id == "self"
    ]


@cache
def members() -> frozenset[str]:
    """Every `Class.member` of the source tree."""
    names: set[str] = set()
    for top in SOURCES:
        for path in (ROOT / top).rglob("*.py"):
            names |= {name for name in names_of(path) if "." in name}
    return frozenset(names)


@cache
def config_keys() -> frozenset[str]:
    structs = (ControllerConfig, GatewayProperties, LogstoreSettings, PurgatoryConfig)
    names = {field.name for struct in structs for field in msgspec.structs.fields(struct)}
    names |= {field.name for field in dataclasses.fields(TopicConfig)}
    return frozenset(name.replace("_", ".") for name in names)


def in_full(text: str) -> str:
    """Write out what docs/architecture.md abbreviates: folders of services, and choices, as `{a,b}.py`."""
    text = _CODE.sub(lambda code: ", ".join(f"`{each}`" for each in _chosen(code.group(1))), text)
    return _SERVICE.sub(lambda found: f"`services/{found.group(1)}/barnabas_{found.group(1)}/", text)


def _chosen(code: str) -> list[str]:
    """Each way to read a path with choices, the outermost first; anything else as it is."""
    begin = code.find("{")
    if "/" not in code or begin < 0:
        return [code]
    choices, depth, since = [], 0, begin + 1
    for index in range(begin, len(code)):
        depth += {"{": 1, "}": -1}.get(code[index], 0)
        if (code[index] == "," and depth == 1) or depth == 0:
            choices.append(code[since:index])
            since = index + 1
        if depth == 0:
            break
    return [each for choice in choices for each in _chosen(code[:begin] + choice + code[since:])]


def text_of(page: Path) -> str:
    return in_full(page.read_text()) if page == ARCHITECTURE else page.read_text()


def missing_paths(text: str) -> list[str]:
    missing = []
    for found in _PATH.finditer(text):
        mention = found.group(0)
        path = ROOT / mention.partition(":")[0]
        name = found.group("name")
        if not path.exists() or (name and path.suffix == ".py" and name not in names_of(path)):
            missing.append(mention)
    return missing


def missing_members(text: str) -> list[str]:
    mentions = [_MEMBER.fullmatch(code) for code in _CODE.findall(text)]
    named = [f"{each.group(1)}.{each.group(2)}" for each in mentions if each is not None]
    return [name for name in named if name not in members()]


def missing_config_keys(text: str) -> list[str]:
    return [code for code in _CODE.findall(text) if _CONFIG_KEY.fullmatch(code) and code not in config_keys()]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_paths_and_functions_exist(page: Path) -> None:
    assert missing_paths(text_of(page)) == []


@pytest.mark.parametrize("page", DESCRIPTIONS, ids=lambda page: page.name)
def test_members_exist(page: Path) -> None:
    assert missing_members(text_of(page)) == []


def test_config_keys_exist() -> None:
    assert missing_config_keys(text_of(ARCHITECTURE)) == []


def test_the_page_can_be_read_on_a_day() -> None:
    """What is more belongs to the page that has the subject."""
    assert len(ARCHITECTURE.read_bytes()) <= BYTES_MAX


def test_architecture_names_the_code() -> None:
    """A page without references would pass all of the above."""
    mentions = list(_PATH.finditer(text_of(ARCHITECTURE)))
    assert len([each for each in mentions if each.group("name")]) > 50


def test_the_wait_graph_has_no_cycle() -> None:
    """What the page draws is what it argues for. A cycle is a CycleError that names its nodes."""
    diagrams = _DIAGRAM.findall(text_of(ARCHITECTURE))
    (graph,) = [diagram for diagram in diagrams if diagram.startswith("flowchart TD")]
    waits_for: dict[str, set[str]] = {}
    for waiting, awaited in _EDGE.findall(graph):
        waits_for.setdefault(waiting, set()).add(awaited)
    order = list(TopologicalSorter(waits_for).static_order())
    assert set(order) == set(_NODE.findall(graph))


def test_what_is_not_there_is_seen() -> None:
    core = "services/gateway/barnabas_gateway/core"
    text = f"`{core}/nowhere.py`, `{core}/processor.py:GatewayCore.nothing`, `docs/`"
    assert missing_paths(text) == [f"{core}/nowhere.py", f"{core}/processor.py:GatewayCore.nothing"]
    assert missing_paths(f"`{core}/processor.py:GatewayCore.drain`") == []
    assert missing_members("`GatewayCore.nothing` `GatewayCore.drain`") == ["GatewayCore.nothing"]
    assert missing_config_keys("`queued.max.requests` `queued.max.nothing`") == ["queued.max.nothing"]


def test_what_is_abbreviated_is_looked_for_in_full() -> None:
    core = "services/gateway/barnabas_gateway/core"
    short = "`gateway/core/{processor,nowhere}.py` `gateway/core/processor.py:GatewayCore.{drain,nothing}` `{a, b}`"
    assert missing_paths(in_full(short)) == [f"{core}/nowhere.py", f"{core}/processor.py:GatewayCore.nothing"]
    assert in_full("`{a, b}` `logstore`") == "`{a, b}` `logstore`"
