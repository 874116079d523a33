"""The file of a back-up: what is in it, and that nothing but a whole one is taken."""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import asdict
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.cluster.backup import Backup, BackupEntry, BackupHeader, UnreadableBackup, decode_backup, encode_backup
from barnabas.ports.etcd import KeyValue, Snapshot
from barnabas_cli.recovery.backup import _write
from barnabas_cli.recovery.backup import take_backup as take
from tests.tiers import Cost, examples

SNAPSHOT = Snapshot(
    41,
    (
        KeyValue("/b/cluster", b'{"cluster_id":"x"}', 2, 2),
        KeyValue("/b/controller/election", b"{}", 40, 40, lease=7),
        KeyValue("/b/logstores/1", b"{}", 39, 39, lease=8),
        KeyValue("/b/topics/a", b"\xff\x00", 30, 31),
    ),
)


def a_backup() -> Backup:
    return take(SNAPSHOT, "/b/", "x", 1_700_000_000_000, "0.2.0")


def test_what_lives_under_a_lease_is_left_out_and_keys_are_relative_to_the_prefix() -> None:
    backup = a_backup()
    assert backup.entries == (BackupEntry("cluster", b'{"cluster_id":"x"}'), BackupEntry("topics/a", b"\xff\x00"))
    assert backup.header == BackupHeader("x", "/b/", 41, 1_700_000_000_000, "0.2.0", 2)


@given(st.lists(st.tuples(st.text(max_size=20), st.binary(max_size=50)), max_size=20))
@examples(Cost.HIGH)
def test_every_backup_is_read_as_it_was_written(entries: list[tuple[str, bytes]]) -> None:
    header = BackupHeader("x", "/b/", 41, 5, "0.2.0", len(entries))
    backup = Backup(header, tuple(BackupEntry(key, value) for key, value in entries))
    assert decode_backup(encode_backup(backup)) == backup


def test_a_file_is_its_owners_alone(tmp_path: Path) -> None:
    """It has the keys of SCRAM's users."""
    before = os.umask(0)
    try:
        (tmp_path / "b.tmp").write_text("left behind, and readable by all")
        _write(tmp_path / "b", b"content")
    finally:
        os.umask(before)
    assert ((tmp_path / "b").stat().st_mode & 0o777, (tmp_path / "b").read_bytes()) == (0o600, b"content")


def test_each_line_is_json_and_the_first_says_what_it_is() -> None:
    lines = [json.loads(line) for line in encode_backup(a_backup()).splitlines()]
    assert list(lines[0])[:2] == ["format", "version"]
    assert (lines[0]["format"], lines[0]["version"], lines[0]["keys"]) == ("barnabas-backup", 1, 2)
    assert lines[1] == {"key": "cluster", "value": '{"cluster_id":"x"}'}
    assert list(lines[-1]) == ["sha256"]


def test_a_file_that_was_cut_off_anywhere_is_refused() -> None:
    content = encode_backup(a_backup())
    for end in range(len(content) - 1):
        with pytest.raises(UnreadableBackup):
            decode_backup(content[:end])


def test_a_flipped_bit_anywhere_is_refused() -> None:
    content = encode_backup(a_backup())
    for position in range(len(content) - 1):
        changed = bytearray(content)
        changed[position] ^= 1
        with pytest.raises(UnreadableBackup):
            decode_backup(bytes(changed))


def test_a_newer_format_says_which_version_reads_it() -> None:
    content = encode_backup(a_backup()).replace(b'"version":1', b'"version":2')
    with pytest.raises(UnreadableBackup, match=r"version 2, and this Barnabas reads version 1: use 0\.2\.0 or newer"):
        decode_backup(content)


@pytest.mark.parametrize(
    "line",
    [
        b'{"key":"a","value":"\\ud800"}',
        b'{"key":"\\udfff","value":""}',
        b'{"key":"a","value_base64":"\xc3\xa9"}',
        b'{"key":"a","value_base64":7}',
        b'{"key":"a","value":["b"]}',
        b'{"key":"a"}',
        b'{"key":"a","value":' + b"[" * 100_000 + b"}",
    ],
)
def test_a_line_that_no_backup_has_is_named_though_the_checksum_is_right(line: bytes) -> None:
    """The checksum is of the file's own author."""
    header = json.dumps({"format": "barnabas-backup", "version": 1, **asdict(BackupHeader("x", "/b/", 1, 5, "0", 1))})
    body = header.encode() + b"\n" + line + b"\n"
    content = body + json.dumps({"sha256": hashlib.sha256(body).hexdigest()}).encode() + b"\n"
    with pytest.raises(UnreadableBackup, match="no key with its value"):
        decode_backup(content)


@pytest.mark.parametrize("content", [b"", b"\n", b"{}", b"[]\n[]\n", b"\xff\xfe", b"[" * 100_000])
def test_anything_else_is_refused(content: bytes) -> None:
    with pytest.raises(UnreadableBackup, match="no back-up"):
        decode_backup(content)
