"""Configuration: Java's properties, environment and arguments in that order, and errors of one line that tell all."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import msgspec
import pytest

from barnabas.runtime.configuration.config import load_config
from barnabas.runtime.configuration.properties import parse_properties


class Sample(msgspec.Struct, kw_only=True, frozen=True):
    node_id: int
    num_network_threads: Annotated[int, msgspec.Meta(ge=1, le=64)] = 3
    listeners: list[str] = msgspec.field(default_factory=lambda: ["PLAINTEXT://:9092"])
    data_directory: str = msgspec.field(name="log.dirs", default="data")
    auto_create_topics_enable: bool = True
    log_format: Literal["json", "console"] = "json"
    quota_fraction: float = 0.5

    def __post_init__(self) -> None:
        if self.num_network_threads > 8 and self.node_id == 0:
            raise ValueError("num.network.threads above 8 needs a node.id above 0")


def load(*argv: str) -> Sample:
    return load_config(Sample, argv, program="sample").config


def error_of(capsys: pytest.CaptureFixture[str], *argv: str) -> str:
    with pytest.raises(SystemExit) as exit_info:
        load(*argv)
    assert exit_info.value.code == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    (line,) = captured.err.splitlines()
    return line


def test_defaults_stand_where_nothing_is_set() -> None:
    assert load("--set", "node.id=1") == Sample(node_id=1)


def test_every_type_is_read() -> None:
    settings = ["node.id=-1", "listeners=A://:1, B://:2", "log.dirs=/x=y", "auto.create.topics.enable=FALSE"]
    settings += ["log.format=console", "quota.fraction=0.25"]
    assert load(*(part for each in settings for part in ("--set", each))) == Sample(
        node_id=-1,
        listeners=["A://:1", "B://:2"],
        data_directory="/x=y",
        auto_create_topics_enable=False,
        log_format="console",
        quota_fraction=0.25,
    )


def test_an_empty_list_is_empty() -> None:
    assert load("--set", "node.id=1", "--set", "listeners=").listeners == []


def test_arguments_win_over_environment_and_environment_over_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a").write_text("node.id=1\nnum.network.threads=2\nlog.dirs=a\nquota.fraction=1\n")
    (tmp_path / "b").write_text("quota.fraction=2\n")
    monkeypatch.setenv("BARNABAS_NUM_NETWORK_THREADS", "4")
    monkeypatch.setenv("BARNABAS_LOG_DIRS", "environment")
    monkeypatch.setenv("BARNABAS_GATEWAY_SERVICE_HOST", "10.0.0.1")
    config = load("--config", f"{tmp_path}/a", "--config", f"{tmp_path}/b", "--set", "log.dirs=argument")
    assert config == Sample(node_id=1, num_network_threads=4, data_directory="argument", quota_fraction=2)


@pytest.mark.parametrize(
    ("argv", "expected"),
    [
        (
            ["--set", "num.netwrok.threads=3"],
            "unknown key num.netwrok.threads (--set); did you mean num.network.threads?",
        ),
        (["--set", "zzz=3"], "unknown key zzz (--set)"),
        (["--set", "data.directory=x"], "unknown key data.directory (--set)"),
        (["--set", "node.id=one"], "node.id=one (--set): expected `int`"),
        (["--set", "num.network.threads=0"], "num.network.threads=0 (--set): expected `int` >= 1"),
        (["--set", "num.network.threads=65"], "num.network.threads=65 (--set): expected `int` <= 64"),
        (["--set", "log.format=xml"], "log.format=xml (--set): expected one of json, console"),
        (["--set", "auto.create.topics.enable=maybe"], "auto.create.topics.enable=maybe (--set): expected `bool`"),
        ([], "node.id is not set and has no default"),
        (["--set", "node.id"], "--set takes KEY=VALUE, not 'node.id'"),
        (
            ["--set", "node.id=0", "--set", "num.network.threads=9"],
            "num.network.threads above 8 needs a node.id above 0",
        ),
        (["--frobnicate"], "unrecognized arguments: --frobnicate"),
        (["--config", "/does/not/exist"], "cannot read /does/not/exist: No such file or directory"),
    ],
)
def test_an_error_is_one_line_that_names_key_value_and_what_is_allowed(
    capsys: pytest.CaptureFixture[str], argv: list[str], expected: str
) -> None:
    assert error_of(capsys, *argv).startswith(f"sample: {expected}")


def test_an_error_names_the_file_or_variable(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "server.properties"
    path.write_text("node.id=x\n")
    assert f"node.id=x ({path})" in error_of(capsys, "--config", str(path))
    monkeypatch.setenv("BARNABAS_NODE_ID", "y")
    assert "node.id=y (BARNABAS_NODE_ID)" in error_of(capsys)


def test_a_file_that_is_not_text_is_one_line(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"node.id=\xff\n")
    assert "byte 8 is not UTF-8" in error_of(capsys, "--config", f"{tmp_path}/a")


def test_help_lists_keys_with_defaults(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exit_info:
        load("--help")
    assert exit_info.value.code == 0
    text = capsys.readouterr().out
    assert "num.network.threads = 3" in text
    assert "node.id  (required)" in text
    assert "log.dirs = data" in text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", {}),
        ("a=1\nb = 2 \nc:3\nd : 4\ne 5\nf\t=\t6", {"a": "1", "b": "2 ", "c": "3", "d": "4", "e": "5", "f": "6"}),
        ("# comment\n  ! comment\n\n   \na=1", {"a": "1"}),
        ("a=1\\\n   ,2\\\n\t,3\nb=2", {"a": "1,2,3", "b": "2"}),
        ("a=1\\\\\nb=2", {"a": "1\\", "b": "2"}),
        ("a=1\\\n# not a comment", {"a": "1# not a comment"}),
        ("a\\=b\\:c\\ d=e", {"a=b:c d": "e"}),
        ("a=\\u00e4\\t\\n\\q", {"a": "ä\t\nq"}),
        ("a=b=c:d", {"a": "b=c:d"}),
        ("a", {"a": ""}),
        ("a=", {"a": ""}),
        ("a=1\r\nb=2\rc=3", {"a": "1", "b": "2", "c": "3"}),
        ("a=1\na=2", {"a": "2"}),
        ("a=1\\", {"a": "1"}),
        ("= 1", {"": "1"}),
    ],
)
def test_properties_are_read_as_java_reads_them(text: str, expected: dict[str, str]) -> None:
    assert parse_properties(text) == expected
