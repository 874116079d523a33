"""`python -m tests.changed`: the tests that are nearest to what changed since `main`, as many as a minute allows.

A test module is as near to a changed module as the imports between them are few. Modules that changed themselves come
first. What each takes is known from the ledger of durations; what does not fit any more is counted, and left to
`make test`.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

import grimp

from tests.durations import read_ledger

ROOT = Path(__file__).parents[1]
ROOTS = (
    "cli",
    "services/controller",
    "services/gateway",
    "services/logstore",
    "services/purgatory",
    "protos",
    "pipeline",
)
"""Folders of one package each; the other packages lie in the root."""
PACKAGES = ("barnabas", *(f"barnabas_{Path(root).name}" for root in ROOTS), "bench", "scripts", "tests")
TIERS = ("tests.unit.", "tests.property.", "tests.regressions.", "tests.scenarios.", "tests.transcripts.")
DOCS_TESTS = "tests.unit.docs"
CPU_SECONDS_MAX = 60.0
"""On two workers: half a minute."""
UNKNOWN_SECONDS = 0.5
"""Of a module that the ledger does not have."""
WORKERS = 2


def git(*arguments: str) -> list[str]:
    done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False)
    return done.stdout.splitlines() if done.returncode == 0 else []


def changed_files(base: str) -> list[Path]:
    """Return what differs from where this branch left `base`, committed or not."""
    (since,) = git("merge-base", "HEAD", base) or ["HEAD"]
    names = {*git("diff", "--name-only", since), *git("ls-files", "--others", "--exclude-standard")}
    return [Path(name) for name in sorted(names)]


def module_of(path: Path) -> str:
    """Return the name that a Python file is imported by."""
    root = next((root for root in ROOTS if path.is_relative_to(root)), "")
    parts = path.relative_to(root).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def path_of(module: str) -> str:
    return f"{module.replace('.', '/')}.py"


def is_test(module: str) -> bool:
    return module.startswith(TIERS) and module.rpartition(".")[2].startswith("test_")


def nearest_first(graph: grimp.ImportGraph, changed: Iterable[str]) -> Iterator[str]:
    """Yield the test modules that import what changed, by the number of imports between them."""
    seen = set(changed) & graph.modules
    ring = sorted(seen)
    while ring:
        yield from filter(is_test, ring)
        ring = sorted({importer for each in ring for importer in graph.find_modules_that_directly_import(each)} - seen)
        seen.update(ring)


def affordable(modules: Iterable[str], ledger: dict[str, float]) -> tuple[list[str], int]:
    """Return the paths of the first modules that fit into the time, and how many are left out."""
    paths: list[str] = []
    left_s, left_out = CPU_SECONDS_MAX, 0
    for path in map(path_of, modules):
        seconds = ledger.get(path, UNKNOWN_SECONDS)
        if seconds <= left_s:
            paths.append(path)
            left_s -= seconds
        else:
            left_out += 1
    return paths, left_out


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.changed", description="Test what is near to a change")
    parser.add_argument("--base", default="main", help="the branch to compare with (main)")
    files = changed_files(parser.parse_args().base)
    graph = grimp.build_graph(*PACKAGES, cache_dir=str(ROOT / ".import_linter_cache"))
    modules = list(nearest_first(graph, [module_of(path) for path in files if path.suffix == ".py"]))
    if any(path.suffix == ".md" for path in files):
        modules += sorted(each for each in graph.modules if each.startswith(DOCS_TESTS) and is_test(each))
    paths, left_out = affordable(dict.fromkeys(modules), read_ledger())
    print(f"{len(files)} files changed; {len(paths)} test modules are near, {left_out} more are left to `make test`")
    if paths:
        command = [sys.executable, "-m", "pytest", "-q", "-m", "not deep", "-n", str(WORKERS), *paths]
        sys.exit(subprocess.run(command, cwd=ROOT, check=False).returncode)


if __name__ == "__main__":
    main()
