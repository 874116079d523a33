"""Compile the cores with a look, at each call site, at whether it is armed: campaigns then run what users run, and take
a quarter of the time.

    def accept(self, call: Call) -> None:           def accept(self, call: Call) -> None:
        …                                               if ARMED[17]:
                                                            return CALLED[0](17, self._Reads_accept_body, self, call)
                                                        return self._Reads_accept_body(call)
                                                    def _Reads_accept_body(self, call: Call) -> None:
                                                        …

`python -m tests.sim.exceptions.throwing_build` makes it in build/throwing; with THROWING_CORES=1 in the environment
tests take it. The controller's core is not compiled: its methods are replaced, as all are without this build.
"""

from __future__ import annotations

import ast
import hashlib
import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from scripts.compiled.build import build
from scripts.compiled.sources import Additions, compiled_modules
from tests.compiled import THROWING
from tests.sim.exceptions.call_sites import MODULE, call_sites

_TEXT = '''"""Which call sites are armed, and what is called there instead."""

from __future__ import annotations

from typing import Any, Final

SITES: Final[list[str]] = {sites}
ARMED: Final[list[bool]] = [False] * {count}
CALLED: Final[list[Any]] = []
'''


def additions() -> Additions:
    """Return what the build has besides. Call it with interpreted cores: it looks at their methods."""
    compiled = compiled_modules()
    sites = [site for site in call_sites().values() if site.owner.__module__ in compiled]
    numbers = {(each.owner.__module__, each.owner.__name__, each.method): n for n, each in enumerate(sites)}
    names = [f"{each.name}={each.owner.__module__}" for each in sites]
    made_by = hashlib.blake2b(Path(__file__).read_bytes() + repr(names).encode()).hexdigest()
    text = _TEXT.format(sites=names, count=len(names))
    return Additions(
        lambda file, source: rewritten(file, source, numbers), f"{MODULE.replace('.', '/')}.py", text, made_by
    )


def rewritten(file: str, source: str, numbers: Mapping[tuple[str, str, str], int]) -> str:
    """Return a module with a look at each of its call sites. `numbers`: theirs, by module, class and method."""
    module = file.removesuffix(".py").replace("/", ".")
    found = [
        (node, method, numbers[module, node.name, method.name])
        for node in ast.parse(source).body
        if isinstance(node, ast.ClassDef)
        for method in node.body
        if isinstance(method, ast.FunctionDef) and (module, node.name, method.name) in numbers
    ]
    if not found:
        return source
    lines = source.split("\n")
    for owner, method, number in reversed(found):
        body = f"_{owner.name.lstrip('_')}_{method.name}_body"
        first = method.lineno - 1
        lines[first] = lines[first].replace(f"def {method.name}(", f"def {body}(", 1)
        lines[first:first] = _look(method, number, body)
    future = next(number for number, line in enumerate(lines) if line == "from __future__ import annotations")
    lines.insert(future + 1, f"from {MODULE} import ARMED as _ARMED, CALLED as _CALLED")
    return "\n".join(lines)


def _look(method: ast.FunctionDef, number: int, body: str) -> Iterator[str]:
    indent = " " * method.col_offset
    returned = "" if method.returns is None else f" -> {ast.unparse(method.returns)}"
    given = method.args
    passed = [each.arg for each in [*given.posonlyargs, *given.args][1:]]
    passed += [] if given.vararg is None else [f"*{given.vararg.arg}"]
    passed += [f"{each.arg}={each.arg}" for each in given.kwonlyargs]
    passed += [] if given.kwarg is None else [f"**{given.kwarg.arg}"]
    yield f"{indent}def {method.name}({ast.unparse(given)}){returned}:"
    yield f"{indent}    if _ARMED[{number}]:"
    yield f"{indent}        return {', '.join([f'_CALLED[0]({number}, self.{body}, self', *passed])})"
    yield f"{indent}    return self.{body}({', '.join(passed)})"


if __name__ == "__main__":
    build(2, os.cpu_count() or 1, THROWING, additions())
