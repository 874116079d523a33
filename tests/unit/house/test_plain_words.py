"""Words of a private dialect stay out of what people read: docstrings, comments, messages, protos and deployment files.

Names in code and what stands in backticks are not checked here.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
CODE = ("barnabas", "cli", "services", "pipeline")
TESTS = ("tests", "bench")
OTHERS = ("Makefile", "scripts", "deploy", "protos")
"""Files that are checked as a whole; of the protos only the .proto files."""

BANNED = re.compile(r"(?<![\w./-])(told|anew|nobody|whoever|likewise)(?![\w-])", re.IGNORECASE)
"""Not within names such as `barnabas.made-anew`, which a table's format has."""
BANNED_IN_DOCSTRINGS = re.compile(
    r"(?<![\w./-])(anybody|everybody|somebody|he|him|himself|his)(?![\w-])", re.IGNORECASE
)
"""A process, a broker or a client is "it", and has a name. In docstrings and comments of Python."""
EXCEPTIONS: frozenset[str] = frozenset()
"""`path:line`. This list only shrinks."""
FIXED_MESSAGES = frozenset(
    {
        " is told to stop",
        "told to stop",
        "what was appended is in the log, and nobody has heard of it",
        "a log is cut, and nobody has heard of it",
        "nobody knows the partition",
        "nobody knows the producer",
    }
)
"""Part of a run's trace, whose hash stays, or names of saved recordings."""

_QUOTED_CODE = re.compile(r"`[^`]*`")
_QUOTED_VALUE = re.compile(r"'[^']*'")
_THIS = Path(__file__).relative_to(ROOT).as_posix()


def words_in(text: str) -> list[str]:
    return BANNED.findall(_QUOTED_CODE.sub("", text))


def comments_of(source: str) -> Iterator[tuple[int, str]]:
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string


def docstrings_of(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Strings that are statements: docstrings, of attributes too."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield node.lineno, node.value.value


def strings_of(tree: ast.AST) -> Iterator[tuple[int, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.lineno, node.value


def sentences_of(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Strings of more than one word, without the values that they quote: in a test, a word alone is data."""
    for line, text in strings_of(tree):
        if " " in text and text not in FIXED_MESSAGES:
            yield line, _QUOTED_VALUE.sub("", text)


def found_in_python(path: Path, *, is_test: bool) -> Iterator[tuple[int, str]]:
    source = path.read_text(encoding="utf-8")
    if not BANNED.search(source):
        return
    tree = ast.parse(source)
    yield from comments_of(source)
    if is_test:
        yield from docstrings_of(tree)
        yield from sentences_of(tree)
    else:
        yield from strings_of(tree)


def python_files(folder: str) -> list[Path]:
    return [path for path in sorted((ROOT / folder).rglob("*.py")) if not path.stem.endswith(("_pb2", "_pb2_grpc"))]


def other_files(name: str) -> list[Path]:
    top = ROOT / name
    paths = [top] if top.is_file() else [path for path in sorted(top.rglob("*")) if path.is_file()]
    if name == "protos":
        return [path for path in paths if path.suffix == ".proto"]
    return [path for path in paths if "__pycache__" not in path.parts]


def offences(path: Path, texts: Iterator[tuple[int, str]]) -> list[str]:
    name = path.relative_to(ROOT).as_posix()
    found = [(line, words_in(text)) for line, text in texts]
    return [
        f"{name}:{line}: {', '.join(words)}" for line, words in found if words and f"{name}:{line}" not in EXCEPTIONS
    ]


@pytest.mark.parametrize("folder", CODE + TESTS)
def test_python_is_without_banned_words(folder: str) -> None:
    found = []
    for path in python_files(folder):
        if path.relative_to(ROOT).as_posix() != _THIS:
            found += offences(path, found_in_python(path, is_test=folder in TESTS))
    assert found == []


@pytest.mark.parametrize("folder", [*CODE, *TESTS, "scripts"])
def test_docstrings_and_comments_name_their_subject(folder: str) -> None:
    found = []
    for path in python_files(folder):
        source = path.read_text(encoding="utf-8")
        if path.relative_to(ROOT).as_posix() != _THIS and BANNED_IN_DOCSTRINGS.search(source):
            for line, text in (*comments_of(source), *docstrings_of(ast.parse(source))):
                if words := BANNED_IN_DOCSTRINGS.findall(_QUOTED_CODE.sub("", text)):
                    found.append(f"{path.relative_to(ROOT)}:{line}: {', '.join(words)}")
    assert found == []


@pytest.mark.parametrize("name", OTHERS)
def test_other_files_are_without_banned_words(name: str) -> None:
    found = []
    for path in other_files(name):
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
        found += offences(path, enumerate(lines, 1))
    assert found == []


def test_a_banned_word_is_found_in_each_place_and_not_in_names(tmp_path: Path) -> None:
    source = (
        '"""Nobody."""\n\nx = 1\n"""Made anew."""\ntold = f"likewise {x}"  # whoever; `told` is a name\n'
        'group, message = "nobody", "no topic \'told\' is there"\n'
    )
    path = tmp_path / "sample.py"
    path.write_text(source, encoding="utf-8")
    words = [word for _, text in found_in_python(path, is_test=False) for word in words_in(text)]
    assert sorted(words) == ["Nobody", "anew", "likewise", "nobody", "told", "whoever"]
    words = [word for _, text in found_in_python(path, is_test=True) for word in words_in(text)]
    assert sorted(set(words)) == ["Nobody", "anew", "likewise", "whoever"]
