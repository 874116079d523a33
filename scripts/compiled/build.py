"""Make the binary: mypyc turns the copied sources into C, a C compiler that into objects, and these are one library.

mypyc's own build makes one file of C of everything, which takes gigabytes of memory and one processor, or one for each
module, each of which begins with the same two megabytes of declarations. Here some dozen units include the files of the
modules, and are compiled beside each other. All of it is in `build/compiled`; a build with the same sources takes what
is there, or what a clone has left in the cache. After a change of what a function does, one unit of them is compiled.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import re
import subprocess
import sys
import sysconfig
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

import mypy.version
import mypyc.build
import mypyc.common
from mypyc.ir.deps import SourceDep
from mypyc.options import CompilerOptions

from barnabas.cores import LIBRARY, MANIFEST, ROOT, digest, find_build, problem_of
from scripts.compiled.annotations import ErasedAnnotationError, check_annotations
from scripts.compiled.cache import Cache, digest_of, files_of, of_this_user, version_of
from scripts.compiled.compiler import find_compiler
from scripts.compiled.sources import SEEN, Additions, compiled_files, compiled_modules, copy_sources, product_files

FOLDER = ROOT / "build/compiled"
UNITS = 24
GROUP = LIBRARY.removesuffix("__mypyc")
_LIB_RT = Path(mypyc.build.include_dir())
_LAYOUT = ("-fvisibility=hidden", "-fno-align-labels", "-fno-align-jumps", "-fno-align-loops")
"""A request touches most of its code once: what is smaller is faster, and calls within the library need no table."""
_RARE = re.compile(r"^ *(?=PyObject \*CPyPy_\w+\(.*\{$|char CPyDef_\w+___top_level__\(void\) \{$)", re.MULTILINE)
"""Definitions of what is called by interpreted code, which also has to read its arguments, and at import."""
_BESIDE = frozenset({"__main__.py", "beside.py", "lock.py", "wheel_hook.py"})
"""Files here that have no part in what the binary is."""
_CONFIG = """[mypy]
follow_imports = silent
ignore_missing_imports = True
"""


@dataclass(slots=True, frozen=True)
class _Unit:
    source: Path
    result: Path
    includes: tuple[Path, ...] = ()


def build(optimization: int, jobs: int, folder: Path = FOLDER, additions: Additions | None = None) -> None:
    """Make the folder current. Raises SystemExit if the sources or the C can't be compiled, or if a class is read by
    annotations that the binary would not have. `additions` make a binary for tests, in a folder of its own.
    """
    made_by = _made_by(optimization, additions)
    found = find_build([folder])
    if found is not None and not problem_of(found) and found.made_by == made_by:
        print(f"compiled: {folder.relative_to(ROOT)} is current")
        return
    compiler = find_compiler()
    try:
        check_annotations(product_files(), compiled_modules())
    except ErasedAnnotationError as error:
        raise SystemExit(f"compiled: {error}") from None
    cache, tools = of_this_user(), version_of(compiler)
    content = digest(SEEN)
    library = folder / (LIBRARY + EXTENSION_SUFFIXES[0])
    whole = [digest_of(content, made_by, library.name, tools, sys.version, kind) for kind in ("library", "manifest")]
    folder.mkdir(parents=True, exist_ok=True)
    if problem_of(found):
        # A build that is ended before it is done must not leave a new library with the manifest of another.
        (folder / MANIFEST).unlink(missing_ok=True)
    if all(map(cache.take, whole, (library, folder / MANIFEST))):
        print(f"compiled: {library.name} is from the cache, where a build of the same sources has left it")
        return
    print(f"compiled: mypyc and {compiler[0]} compile the cores: two to four minutes on two processors", flush=True)
    began = time.monotonic()
    copy = folder / "source"
    copy_sources(copy, additions)
    if digest(SEEN) != content:
        raise SystemExit("compiled: a source was changed while it was copied: start again")
    files = compiled_files(copy)
    with contextlib.chdir(copy):
        needed = _make_c(files, folder)
    print(f"compiled: {len(files)} modules are C after {time.monotonic() - began:.0f} s", flush=True)
    _compile(compiler, needed, optimization, jobs, library, cache)
    manifest = {
        "suffix": EXTENSION_SUFFIXES[0],
        "modules": [file.removesuffix(".py").replace("/", ".") for file in files],
        "folders": SEEN,
        "digest": content,
        "made_by": made_by,
    }
    written = folder / f"{MANIFEST}.new"
    written.write_text(json.dumps(manifest, indent=1) + "\n")
    written.replace(folder / MANIFEST)
    for key, made in zip(whole, (library, folder / MANIFEST), strict=True):
        cache.keep(key, made)
    cache.prune()
    print(f"compiled: {library.name}, {library.stat().st_size >> 20} MiB, after {time.monotonic() - began:.0f} s")


def _made_by(optimization: int, additions: Additions | None) -> str:
    """Return what changes with the tools that make the binary."""
    found = hashlib.blake2b(f"{optimization} {mypy.version.__version__}".encode(), digest_size=16)
    for file in sorted(Path(__file__).parent.glob("*.[chp]*")):
        if file.is_file() and file.name not in _BESIDE:
            found.update(file.read_bytes())
    if additions is not None:
        found.update(additions.made_by.encode())
    return found.hexdigest()


def _make_c(files: Sequence[str], folder: Path) -> list[SourceDep]:
    """Write the C of all modules, and return what of mypyc's library it needs besides the usual."""
    (folder / "mypy.ini").write_text(_CONFIG)
    options = CompilerOptions(multi_file=True, target_dir=str(folder / "c"), group_name=GROUP)
    for old in (folder / "c").glob("*.c"):
        old.unlink()
    # mypyc says nothing of what its library lacks for a module that it has from a cache.
    arguments = [f"--config-file={folder / 'mypy.ini'}", "--cache-dir=/dev/null", *files]
    said = io.StringIO()
    try:
        with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
            _, _, needed = mypyc.build.mypyc_build(arguments, options, only_compile_paths=files)
    except SystemExit:
        # If it succeeds, it has warnings about each form of which docs/adr/0028-compiled-cores.md says what it becomes.
        print(said.getvalue(), file=sys.stderr)
        raise
    for made in (folder / "c").glob("*.c"):
        made.write_text(_RARE.sub("__attribute__((cold)) ", made.read_text()))
    return needed


def _compile(
    compiler: Sequence[str],
    needed: Sequence[SourceDep],
    optimization: int,
    jobs: int,
    library: Path,
    cache: Cache,
) -> None:
    folder = library.parent
    objects = folder / "objects"
    objects.mkdir(exist_ok=True)
    mypyc.build.setup_mypycify_vars()
    flags = mypyc.build.get_cflags(compiler_type="unix", opt_level=str(optimization), debug_level="0", multi_file=True)
    included = [_LIB_RT, *(_LIB_RT / each for dependency in needed for each in dependency.include_dirs)]
    included += [folder / "c", Path(sysconfig.get_path("include"))]
    plain = [*compiler, "-c", "-fPIC", "-fwrapv", "-DNDEBUG", *flags, *_LAYOUT]
    cold = Path(__file__).with_name("cold.h")
    command = [*plain, *(f"-I{each}" for each in included), "-include", str(cold)]
    runtime = [*mypyc.common.RUNTIME_C_FILES, *(dependency.path for dependency in needed)]
    units = [
        *_units(folder, objects),
        *(_Unit(_LIB_RT / file, objects / f"{Path(file).stem}.o") for file in runtime),
        _Unit(Path(__file__).with_name("loader.c"), objects / "loader.o"),
    ]
    tools = (version_of(compiler), mypy.version.__version__, sys.version)
    declarations = digest_of(*tools, *plain, cold, *files_of(folder / "c", ["*.h"]))
    with ThreadPoolExecutor(jobs) as pool:
        taken = list(pool.map(lambda unit: _object(unit, declarations, command, cache), units))
    print(f"compiled: {sum(taken)} of {len(units)} objects were from the cache", flush=True)
    linked = library.with_suffix(".new")
    _run([*compiler, "-shared", "-s", "-o", str(linked), *(str(unit.result) for unit in units)])
    linked.replace(library)


def _units(folder: Path, objects: Path) -> list[_Unit]:
    """Return units that together include all modules. The name of a module decides to which it belongs, so that the
    others stay the same when one grows.
    """
    parts: list[list[Path]] = [[] for _ in range(UNITS)]
    for file in files_of(folder / "c", ["*.c"]):
        parts[int(digest_of(file.name)[:8], 16) % UNITS].append(file)
    made = []
    for number, part in enumerate(parts):
        unit = _Unit(objects / f"unit{number}.c", objects / f"unit{number}.o", tuple(part))
        unit.source.write_text("".join(f'#include "{file.name}"\n' for file in part))
        made.append(unit)
    return made


def _object(unit: _Unit, declarations: str, command: Sequence[str], cache: Cache) -> bool:
    """Compile a unit; return whether it was not necessary."""
    key = digest_of(declarations, unit.source, *unit.includes)
    if cache.take(key, unit.result):
        return True
    _run([*command, "-o", str(unit.result), str(unit.source)])
    cache.keep(key, unit.result)
    return False


def _run(command: Sequence[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"compiled: {command[0]} failed with {command[-1]}:\n{done.stderr[:4000]}")
