"""Who may work with what etcd holds."""

from __future__ import annotations

from barnabas.cluster.cluster_version import FORMAT, READERS_MIN, VersionRecord, refusal
from barnabas.cluster.keys import Keys, TopicRecord, decode_record, encode_record

KEYS = Keys("/b/")


def test_a_cluster_without_a_version_is_of_the_first_one() -> None:
    assert refusal(None, "0.2.0") is None


def test_our_own_format_and_a_newer_one_that_we_may_read_are_taken() -> None:
    assert refusal(VersionRecord(FORMAT, READERS_MIN, "0.2.0"), "0.2.0") is None
    assert refusal(VersionRecord(FORMAT + 5, FORMAT, "0.9.0"), "0.2.0") is None


def test_a_format_that_we_do_not_know_says_which_version_to_run() -> None:
    reason = refusal(VersionRecord(FORMAT + 5, FORMAT + 1, "0.9.0"), "0.2.0")
    assert reason is not None
    assert reason.endswith("run 0.9.0 or newer")
    assert "\n" not in reason


def test_half_a_restore_is_no_cluster() -> None:
    reason = refusal(VersionRecord(FORMAT, READERS_MIN, "0.2.0", restoring=True), "0.2.0")
    assert reason is not None
    assert "--replace" in reason


def test_the_version_is_a_record_like_any_other() -> None:
    record = VersionRecord(3, 2, "0.9.0")
    assert decode_record(KEYS, KEYS.version, encode_record(record)) == record


def test_fields_that_are_not_known_are_skipped_in_every_record() -> None:
    """Since 0.1.0: a rolling upgrade may add some."""
    topic = TopicRecord("a", bytes(16), 1, 1, {})
    value = encode_record(topic)
    assert decode_record(KEYS, KEYS.topic("a"), b'{"later":[1,{}],' + value[1:]) == topic


def test_keys_that_are_not_known_are_no_records() -> None:
    assert decode_record(KEYS, "/b/later/1", b"{}") is None
