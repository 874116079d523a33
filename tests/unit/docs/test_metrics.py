"""The page equals the declarations: run `scripts/metrics` if this fails."""

from __future__ import annotations

from barnabas.metrics.catalogue import FAMILIES
from barnabas.metrics.kafka_names import KAFKA_NAMES, exported_name
from scripts.pages.metrics import PAGE, exposed, page


def test_the_page_is_up_to_date() -> None:
    assert PAGE.read_text() == page()


def test_the_page_has_every_family() -> None:
    text = PAGE.read_text()
    assert [family.name for family in FAMILIES.values() if f"`{exposed(family)}`" not in text] == []


def test_kafkas_names_are_families_and_families_with_kafkas_prefix_are_kafkas() -> None:
    assert set(KAFKA_NAMES) == {name for name in FAMILIES if name.startswith("kafka_")}


def test_a_name_is_what_the_jmx_exporter_makes_of_it() -> None:
    assert (
        exported_name("kafka.server:type=ReplicaManager,name=UnderReplicatedPartitions")
        == "kafka_server_replicamanager_underreplicatedpartitions"
    )
    assert (
        exported_name("kafka.server:type=socket-server-metrics:connection-count")
        == "kafka_server_socket_server_metrics_connection_count"
    )
