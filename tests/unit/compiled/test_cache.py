"""The cache of what builds have made: it has what was kept, never fails, and forgets what is not used."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from scripts.compiled.cache import UNUSED_S_MAX, Cache, digest_of, of_this_user


@pytest.fixture
def cache(tmp_path: Path) -> Cache:
    return Cache(tmp_path / "cache")


@pytest.fixture
def made(tmp_path: Path) -> Path:
    (tmp_path / "made").write_bytes(b"an object")
    return tmp_path / "made"


def test_what_was_kept_is_taken_by_its_key_alone(cache: Cache, made: Path, tmp_path: Path) -> None:
    cache.keep("one", made)
    assert not cache.take("two", tmp_path / "target")
    assert cache.take("one", tmp_path / "target")
    assert (tmp_path / "target").read_bytes() == b"an object"
    assert sorted(path.name for path in (tmp_path / "cache").iterdir()) == ["one"]


def test_a_file_that_a_process_has_mapped_is_replaced_and_not_written(cache: Cache, made: Path, tmp_path: Path) -> None:
    cache.keep("one", made)
    target = tmp_path / "target"
    target.write_bytes(b"an older one")
    with target.open("rb") as mapped:
        assert cache.take("one", target)
        assert mapped.read() == b"an older one"


def test_only_its_owner_may_write_what_is_run_from_it(cache: Cache, made: Path, tmp_path: Path) -> None:
    cache.keep("one", made)
    assert (tmp_path / "cache").stat().st_mode & 0o777 == 0o700


def test_where_nothing_can_be_written_there_is_no_cache(made: Path, tmp_path: Path) -> None:
    cache = Cache(made / "below a file")
    cache.keep("one", made)
    cache.prune()
    assert not cache.take("one", tmp_path / "target")


def test_what_is_not_taken_for_long_is_deleted(cache: Cache, made: Path, tmp_path: Path) -> None:
    for key in ("used", "unused"):
        cache.keep(key, made)
        os.utime(tmp_path / "cache" / key, (0, 0))
    assert cache.take("used", tmp_path / "target")
    cache.prune(time.time() + UNUSED_S_MAX / 2)
    assert [path.name for path in (tmp_path / "cache").iterdir()] == ["used"]


def test_a_digest_tells_parts_from_each_other(made: Path) -> None:
    assert digest_of("ab", "c") != digest_of("a", "bc")
    assert digest_of(made) == digest_of(b"an object")
    before = digest_of(made)
    made.write_bytes(b"another one")
    assert digest_of(made) != before


def test_it_is_where_caches_of_a_user_are(monkeypatch: pytest.MonkeyPatch, made: Path, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "of the user"))
    of_this_user().keep("one", made)
    assert (tmp_path / "of the user/barnabas/compiled/one").exists()
