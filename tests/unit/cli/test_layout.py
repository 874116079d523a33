from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from barnabas import __version__
from barnabas_cli.local.layout import LOGSTORES_MAX, ClusterDirectory, LayoutError, new_layout, settle_layout


@pytest.fixture
def directory(tmp_path: Path) -> ClusterDirectory:
    return ClusterDirectory(tmp_path / "data")


def test_a_new_cluster_has_one_logstore_on_kafkas_port(directory: ClusterDirectory) -> None:
    layout = settle_layout(directory, None, None)
    assert (layout.kafka_port, layout.logstores) == (9092, 1)
    assert directory.read_layout() is None, "settling writes nothing"


def test_a_cluster_keeps_its_port_and_can_only_grow(directory: ClusterDirectory) -> None:
    directory.write_layout(settle_layout(directory, 19092, 3))
    kept = directory.read_layout()
    assert kept is not None
    assert settle_layout(directory, None, None) == kept
    assert settle_layout(directory, 19092, 3) == kept
    assert settle_layout(directory, None, 5).logstores == 5
    with pytest.raises(LayoutError, match="has 3 logstores"):
        settle_layout(directory, None, 2)
    with pytest.raises(LayoutError, match="uses port 19092"):
        settle_layout(directory, 9092, None)


@pytest.mark.parametrize("logstores", [0, -1, LOGSTORES_MAX + 1])
def test_a_number_of_logstores_that_can_not_run(directory: ClusterDirectory, logstores: int) -> None:
    with pytest.raises(LayoutError, match=str(logstores)):
        settle_layout(directory, None, logstores)


@pytest.mark.parametrize("text", ["", "{}", '{"kafka_port": "many"}'])
def test_a_file_that_is_no_layout(directory: ClusterDirectory, text: str) -> None:
    directory.path.mkdir()
    directory.layout_path.write_text(text)
    with pytest.raises(LayoutError, match=r"cluster\.json"):
        directory.require_layout()


def test_a_layout_of_another_version(directory: ClusterDirectory) -> None:
    directory.path.mkdir()
    directory.layout_path.write_text('{"kafka_port": 1, "internal_port": 2, "logstores": 1, "format": 2}')
    with pytest.raises(LayoutError, match="another version"):
        directory.read_layout()


@pytest.mark.parametrize("kafka_port", [1024, 9092, 55_400, 60_000, 65_000])
def test_ports_are_distinct_and_exist(kafka_port: int) -> None:
    used = list(new_layout(kafka_port, LOGSTORES_MAX).ports_used)
    assert len(set(used)) == len(used)
    assert all(1024 <= port <= 65_535 for port in used)


def test_clusters_whose_ports_are_near_each_other_have_internal_ports_of_their_own() -> None:
    taken: set[int] = set()
    for kafka_port in range(9092, 11_092, 100):
        layout = new_layout(kafka_port, 1, lambda port: port not in taken)
        grown = replace(layout, logstores=LOGSTORES_MAX)
        assert taken.isdisjoint(grown.ports_used)
        taken.update(grown.ports_used)


def test_without_a_free_block_the_first_one_is_named() -> None:
    assert new_layout(9092, 1, lambda port: False).internal_port == 19_092
    assert new_layout(9092, 1).internal_port == 19_092


def test_the_version_is_the_packages() -> None:
    project = (Path(__file__).parents[3] / "pyproject.toml").read_text()
    assert f'version = "{__version__}"' in project
