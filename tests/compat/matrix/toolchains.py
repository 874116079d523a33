"""Gets each language's packages and builds its programs, in `.cache/compat`; says why where that can't be done.

Versions are pinned in the manifests beside the programs. What package managers write besides (lock files, sums) stays
in the cache: the registries that are asked are those of the machine's own settings.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Final

from tests.compat.building import ROOT, UnavailableError, build, need, run_tool

__all__ = ["CACHE", "PEER_LIBS", "ROOT", "SOURCES", "UnavailableError", "prepare"]

SOURCES: Final = Path(__file__).parent
SECURITY: Final = SOURCES.parent / "security"
STREAMS: Final = ROOT / "tests/faults/streams/java"
CACHE: Final = ROOT / ".cache/compat"
PEER_LIBS: Final = ROOT / ".cache/peer/libs"
_NPM: Final = [["npm", "install", "--no-audit", "--no-fund", "--no-package-lock"]]
_NODE_HEADERS: Final = Path("/usr/include/node")
# npm fetches no headers where they came with Node itself, as with its packages for Debian.
_NPM_WITH_COMPILER: Final = [[*_NPM[0], "--prefix", "rdkafka", *(["--nodedir=/usr"] if _NODE_HEADERS.exists() else [])]]
_GO: Final = [["go", "mod", "tidy"], ["go", "build", "-o", "bin/", "./..."]]


def prepare(toolchain: str) -> Path:
    """The directory that its programs are started in. Raises UnavailableError."""
    match toolchain:
        case "python":
            return ROOT
        case "kcat":
            need("kcat")
            return ROOT
        case "node":
            need("node", "npm")
            return build(SOURCES / toolchain, CACHE / toolchain, _NPM)
        case "security-node":
            need("node", "npm")
            return build(SECURITY / "node", CACHE / toolchain, _NPM)
        case "node-rdkafka":
            need("node", "npm", "make", "c++")
            return build(SOURCES / "node", CACHE / toolchain, _NPM_WITH_COMPILER)
        case "go":
            need("go")
            return build(SOURCES / toolchain, CACHE / toolchain, _GO)
        case "go-older":
            need("go")
            return build(SOURCES / "go", CACHE / toolchain, _go_older("cmd/sarama"))
        case "security-go":
            need("go")
            return build(SECURITY / "go", CACHE / toolchain, _GO)
        case "security-go-older":
            need("go")
            return build(SECURITY / "go", CACHE / toolchain, _go_older("sarama"))
        case "rust":
            need("cargo", "cc", "make")
            return build(SOURCES / toolchain, CACHE / toolchain, [["cargo", "build"]])
        case "rskafka":
            need("cargo", "cc")
            return build(SOURCES / toolchain, CACHE / toolchain, [["cargo", "build"]])
        case "peer":
            need("java", "javac")
            run_tool([str(ROOT / "scripts/peer")], ROOT, CACHE / "peer.log")
            return PEER_LIBS
        case "java":
            need("mvn")
            prepare("peer")
            copy = ["mvn", "--batch-mode", "--quiet", "dependency:copy-dependencies", "-DoutputDirectory=libs"]
            sources = sorted(str(path.relative_to(SOURCES / "java")) for path in (SOURCES / "java").glob("*.java"))
            compile_all = ["javac", "-d", "classes", "-cp", f"{PEER_LIBS}/*:libs/*", *sources]
            return build(SOURCES / toolchain, CACHE / toolchain, [copy, compile_all])
        case "java-0.10.2":
            return _older_java(toolchain, "0.10.2.2", "Checks", "older/RecordChecks", "older/Clients0102")
        case "java-2.1":
            records = ("Checks", "TransactionChecks", "older/RecordChecks", "older/Clients21")
            return _older_java(toolchain, "2.1.1", *records)
        case "java-3.9":
            recent = ("Checks", "TransactionChecks", "JavaClients", "older/recent/RecentCalls")
            return _older_java(toolchain, "3.9.1", *recent)
        case "streams":
            need("java", "javac", "mvn")
            copy = ["mvn", "--batch-mode", "--quiet", "dependency:copy-dependencies", "-DoutputDirectory=libs"]
            compile_one = ["javac", "-d", "classes", "-cp", "libs/*", "WordCount.java"]
            return build(STREAMS, CACHE / toolchain, [copy, [*copy, "--file", "smoke/pom.xml"], compile_one])
        case "kafka-python-suite":
            return _kafka_python_suite()
        case _:
            raise AssertionError(f"no toolchain {toolchain}")


def _go_older(program: str) -> list[list[str]]:
    """Build one program with the versions of `older.mod`."""
    return [
        ["go", "mod", "tidy", "-modfile=older.mod"],
        ["go", "build", "-modfile=older.mod", "-tags=older", "-o", "bin/", f"./{program}"],
    ]


def _older_java(toolchain: str, version: str, *classes: str) -> Path:
    """Compile these classes of `java` against Kafka's clients of another version, which go to `older/libs`."""
    need("java", "javac", "mvn")
    get = ["mvn", "--batch-mode", "--quiet", "dependency:copy-dependencies", f"-Dkafka.version={version}"]
    copy = [*get, "-DoutputDirectory=libs", "--file", "older/pom.xml"]
    compile_all = ["javac", "-d", "classes", "-cp", "older/libs/*", *(f"{name}.java" for name in classes)]
    return build(SOURCES / "java", CACHE / toolchain, [copy, compile_all])


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
    run_tool([python, *got], directory.parent, CACHE / "kafka-python.log")
    shutil.unpack_archive(directory.parent / f"kafka_python-{wanted}.tar.gz", directory.parent)
    # Its tests are to run against the package that is installed.
    shutil.rmtree(directory / "kafka")
    (directory / "test/service.py").write_text(_SERVICE)
    # The standard library has a package of this name, too.
    (directory / "test/__init__.py").touch()
    return directory
