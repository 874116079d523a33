"""kafka-python in each cell."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import kafka
from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.net.sasl.oauth import AbstractTokenProvider

from tests.compat.security.cells import Cell
from tests.compat.security.python.cells import PATIENCE_S, RECORDS, REFUSED_WITHIN_S, run_cells, values_of


class _Tokens(AbstractTokenProvider):
    def __init__(self, cell: Cell) -> None:
        super().__init__()
        self._token = Path(cell.token_path).read_text()

    def token(self) -> str:
        return self._token


def settings(cell: Cell) -> dict[str, Any]:
    config: dict[str, Any] = {"bootstrap_servers": cell.bootstrap, "security_protocol": cell.protocol}
    if cell.ca:
        config["ssl_cafile"] = cell.ca
    if cell.certificate:
        config["ssl_certfile"] = config["ssl_keyfile"] = cell.certificate
    if cell.token_path:
        config |= {"sasl_mechanism": cell.mechanism, "sasl_oauth_token_provider": _Tokens(cell)}
    elif cell.service:
        config |= {"sasl_mechanism": cell.mechanism, "sasl_kerberos_service_name": cell.service}
    elif cell.mechanism:
        config |= {
            "sasl_mechanism": cell.mechanism,
            "sasl_plain_username": cell.user,
            "sasl_plain_password": cell.password,
        }
    return config


def use(cell: Cell) -> list[bytes]:
    producer = KafkaProducer(**settings(cell))
    for value in values_of(cell):
        producer.send(cell.topic, value, partition=0).get(PATIENCE_S)
    producer.close()
    consumer = KafkaConsumer(consumer_timeout_ms=int(PATIENCE_S * 1000), **settings(cell))
    partition = TopicPartition(cell.topic, 0)
    consumer.assign([partition])
    consumer.seek_to_beginning(partition)
    found: list[bytes] = []
    for record in consumer:
        found.append(record.value)
        if len(found) == RECORDS:
            break
    consumer.close()
    return found


def connect(cell: Cell) -> None:
    """It reports no refusal of a bootstrap broker, but goes on trying as long as it is allowed to."""
    KafkaProducer(**settings(cell), bootstrap_timeout_ms=int(REFUSED_WITHIN_S * 500)).close(timeout=1)


if __name__ == "__main__":
    run_cells(kafka.__version__, use, connect)
