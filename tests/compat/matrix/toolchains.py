"""Gets each language's packages and builds its programs, in `.cache/compat`; says why where that can't be done.

Versions are pinned in the manifests beside the programs. What package managers write besides (lock files, sums) stays
in the cache: the registries that are asked are those of the machine's own settings.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[3]
SOURCES: Final = Path(__file__).parent
SECURITY: Final = SOURCES.parent / "security"
STREAMS: Final = ROOT / "tests/faults/streams/java"
CACHE: Final = ROOT / ".cache/compat"
PEER_LIBS: Final = ROOT / ".cache/peer/libs"
BUILD_SECONDS_MAX: Final = 1500
_NPM: Final = [["npm", "install", "--no-audit", "--no-fund", "--no-package-lock"]]
_GO: Final = [["go", "mod", "tidy"], ["go", "build", "-o", "bin/", "./..."]]


class UnavailableError(Exception):
    """A toolchain that is not here, or can't build; the message says what was seen."""


def prepare(toolchain: str) -> Path:
    """The directory that its programs are started in. Raises UnavailableError."""
    match toolchain:
        case "python":
            return ROOT
        case "kcat":
            _need("kcat")
            return ROOT
        case "node":
            _need("node", "npm")
            return _built(toolchain, _NPM)
        case "security-node":
            _need("node", "npm")
            return _built(toolchain, _NPM, SECURITY / "node")
        case "go":
            _need("go")
            return _built(toolchain, _GO)
        case "security-go":
            _need("go")
            return _built(toolchain, _GO, SECURITY / "go")
        case "rust":
            _need("cargo", "cc", "make")
            return _built(toolchain, [["cargo", "build"]])
        case "peer":
            _need("java", "javac")
            _run([str(ROOT / "scripts/peer")], ROOT, CACHE / "peer.log")
            return PEER_LIBS
        case "java":
            _need("mvn")
            prepare("peer")
            copy = ["mvn", "--batch-mode", "--quiet", "dependency:copy-dependencies", "-DoutputDirectory=libs"]
            sources = sorted(str(path.relative_to(SOURCES / "java")) for path in (SOURCES / "java").glob("*.java"))
            compile_all = ["javac", "-d", "classes", "-cp", f"{PEER_LIBS}/*:libs/*", *sources]
            return _built(toolchain, [copy, compile_all])
        case "streams":
            _need("java", "javac", "mvn")
            copy = ["mvn", "--batch-mode", "--quiet", "dependency:copy-dependencies", "-DoutputDirectory=libs"]
            return _built(toolchain, [copy, ["javac", "-d", "classes", "-cp", "libs/*", "WordCount.java"]], STREAMS)
        case "kafka-python-suite":
            return _kafka_python_suite()
        case _:
            raise AssertionError(f"no toolchain {toolchain}")


def _need(*tools: str) -> None:
    missing = [tool for tool in tools if shutil.which(tool) is None]
    if missing:
        raise UnavailableError(f"{', '.join(missing)} not on PATH")


def _built(toolchain: str, commands: list[list[str]], sources: Path | None = None) -> Path:
    """A copy of the sources in the cache, built once for what they are now."""
    directory, sources = CACHE / toolchain, sources or SOURCES / toolchain
    files = sorted(path for path in sources.rglob("*") if path.is_file())
    digest = hashlib.sha256(repr(commands).encode())
    for path in files:
        digest.update(path.read_bytes())
    stamp = directory / ".built"
    if stamp.exists() and stamp.read_text() == digest.hexdigest():
        return directory
    shutil.copytree(sources, directory, dirs_exist_ok=True)
    stamp.unlink(missing_ok=True)
    for command in commands:
        _run(["nice", "-n", "5", *command], directory, CACHE / f"{toolchain}.log")
    stamp.write_text(digest.hexdigest())
    return directory


def _run(command: list[str], cwd: Path, log: Path) -> None:
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("wb") as output:
        try:
            code = subprocess.run(
                command, cwd=cwd, stdout=output, stderr=subprocess.STDOUT, timeout=BUILD_SECONDS_MAX, check=False
            ).returncode
        except subprocess.TimeoutExpired:
            raise UnavailableError(f"{_spoken(command)} was not done after {BUILD_SECONDS_MAX} s") from None
    if code != 0:
        lines = [line for line in log.read_text(errors="replace").splitlines() if line.strip()]
        raise UnavailableError(f"{_spoken(command)} failed: {' / '.join(lines[-3:])[:400]}")


def _spoken(command: list[str]) -> str:
    return " ".join(Path(word).name if os.sep in word else word for word in command if not word.startswith("-n"))[:80]


_SERVICE = '''"""What the sdist leaves out of `test`: a broker that somebody else has started."""


class ExternalService:
    def __init__(self, host, port):
        self.host, self.port = host, port

    def open(self):
        pass

    def close(self):
        pass


class SpawnedService:
    """Never made: KAFKA_URI names the broker."""
'''


def _kafka_python_suite() -> Path:
    """The tests of kafka-python's sdist, of the very version that is installed."""
    from importlib.metadata import version

    wanted = version("kafka-python")
    directory = CACHE / "kafka-python" / f"kafka_python-{wanted}"
    if (directory / "test/__init__.py").exists():
        return directory
    shutil.rmtree(directory, ignore_errors=True)
    directory.parent.mkdir(parents=True, exist_ok=True)
    python = str(ROOT / ".venv/bin/python")
    got = ["-m", "pip", "download", "--no-deps", "--no-binary", "kafka-python", f"kafka-python=={wanted}", "-d", "."]
    _run([python, *got], directory.parent, CACHE / "kafka-python.log")
    shutil.unpack_archive(directory.parent / f"kafka_python-{wanted}.tar.gz", directory.parent)
    # Its tests are to run against the package that is installed.
    shutil.rmtree(directory / "kafka")
    (directory / "test/service.py").write_text(_SERVICE)
    # The standard library has a package of this name, too.
    (directory / "test/__init__.py").touch()
    return directory
