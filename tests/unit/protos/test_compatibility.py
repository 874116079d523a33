"""The check of the contracts sees what would be misread, and only that."""

from __future__ import annotations

from pathlib import Path

import pytest
from google.protobuf import descriptor_pb2 as pb

from scripts.protos.compatibility import breaks, compiled, readable, released
from tests.releases import ROOT, releases

BEFORE = """
syntax = "proto3";
package test.v1;

service Store {
  rpc Get(Ask) returns (Answer);
  rpc Follow(stream Ask) returns (stream Answer);
}

message Ask {
  string key = 1;
  int32 limit = 2;
  repeated int64 offsets = 3;
  reserved 9;
  Part part = 4;
  message Part {
    bytes data = 1;
  }
}

message Answer {
  State state = 1;
  oneof body {
    string text = 2;
    bytes raw = 3;
  }
  optional int32 rank = 4;
}

enum State {
  UNKNOWN = 0;
  STARTED = 1;
  STOPPED = 2;
}
"""


def compile_text(directory: Path, text: str) -> pb.FileDescriptorSet:
    path = directory / "protos" / "barnabas_protos" / "test" / "v1" / "store.proto"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return compiled(directory)


def changed(directory: Path, *replacements: tuple[str, str]) -> list[str]:
    text = BEFORE
    for old, new in replacements:
        assert old in text
        text = text.replace(old, new)
    return breaks(compile_text(directory, BEFORE), compile_text(directory, text))


@pytest.mark.parametrize(
    ("old", "new", "reported"),
    [
        ("int32 limit = 2;", "", "test.v1.Ask.limit: field 2 is gone, and its number is not reserved"),
        ("int32 limit = 2;", "string limit = 2;", "test.v1.Ask.limit: field 2 was int32, and is string"),
        ("int32 limit = 2;", "sint32 limit = 2;", "test.v1.Ask.limit: field 2 was int32, and is sint32"),
        ("int32 limit = 2;", "Part limit = 2;", "test.v1.Ask.limit: field 2 was int32, and is test.v1.Ask.Part"),
        ("int32 limit = 2;", "int32 limit = 5; reserved 2; reserved 12;", None),
        ("repeated int64 offsets", "int64 offsets", "test.v1.Ask.offsets: field 3 was repeated, and is single"),
        ("reserved 9;", "", "test.v1.Ask: number 9 was reserved, and is not any more"),
        ("reserved 9;", "int32 again = 9;", "test.v1.Ask: number 9 was reserved, and is not any more"),
        (
            "bytes data = 1;",
            "bytes data = 2;",
            "test.v1.Ask.Part.data: field 1 is gone, and its number is not reserved",
        ),
        ("    string text = 2;\n", "", "test.v1.Answer.text: field 2 is gone, and its number is not reserved"),
        ("optional int32 rank", "int32 rank", None),
        ("  STOPPED = 2;", "", "test.v1.State.STOPPED: 2 is gone, and is not reserved"),
        ("  STOPPED = 2;", "  reserved 2;", None),
        ("STOPPED = 2", "PAUSED = 2", "test.v1.State: 2 was STOPPED, and is PAUSED"),
        ("  rpc Get(Ask) returns (Answer);\n", "", "rpc test.v1.Store.Get is gone"),
        (
            "Get(Ask) returns (Answer)",
            "Get(Ask) returns (stream Answer)",
            "rpc test.v1.Store.Get was (test.v1.Ask) returns (test.v1.Answer), "
            "and is (test.v1.Ask) returns (stream test.v1.Answer)",
        ),
        ("service Store", "service Shop", "service test.v1.Store is gone"),
        ("message Ask", "message Question", None),
    ],
)
def test_a_break_is_reported_in_one_line(tmp_path: Path, old: str, new: str, reported: str | None) -> None:
    if old == "message Ask":
        text = BEFORE.replace("(Ask)", "(Question)").replace("(stream Ask)", "(stream Question)").replace(old, new)
        found = breaks(compile_text(tmp_path, BEFORE), compile_text(tmp_path, text))
        assert "message test.v1.Ask is gone" in found
        return
    assert changed(tmp_path, (old, new)) == ([] if reported is None else [reported])


def test_a_field_that_moves_into_a_oneof_is_a_break(tmp_path: Path) -> None:
    found = changed(tmp_path, ("optional int32 rank = 4;", ""), ("bytes raw = 3;", "bytes raw = 3; int32 rank = 4;"))
    assert found == ["test.v1.Answer.rank: field 4 has moved into a oneof, or out of one"]


def test_what_is_added_or_renamed_is_no_break(tmp_path: Path) -> None:
    assert not changed(
        tmp_path,
        ("string key = 1;", "string name = 1; bytes more = 20;"),
        ("STOPPED = 2;", "STOPPED = 2; PAUSED = 3;"),
        ("rpc Get", "rpc Put(Ask) returns (Answer); rpc Get"),
        ("int32 limit", "int64 limit"),
    )


def test_a_readable_form_names_every_field(tmp_path: Path) -> None:
    lines = readable(compile_text(tmp_path, BEFORE)).splitlines()
    assert "test.v1.Ask 3 repeated int64 offsets" in lines
    assert "test.v1.Ask reserved 9–9" in lines
    assert "test.v1.State 2 STOPPED" in lines
    assert "test.v1.Store.Follow (stream test.v1.Ask) returns (stream test.v1.Answer)" in lines


def test_the_contracts_of_every_release_are_written_down_and_kept() -> None:
    assert list(released()) == [release.version for release in releases()]
    present = compiled(ROOT)
    for version, files in released().items():
        assert (ROOT / "protos" / "released" / f"{version}.txt").read_text() == readable(files)
        assert breaks(files, present) == []
