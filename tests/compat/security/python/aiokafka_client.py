"""aiokafka in each cell."""

from __future__ import annotations

import asyncio
import logging
import ssl
from pathlib import Path
from typing import Any

import aiokafka
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.abc import AbstractTokenProvider

from tests.compat.security.cells import Cell
from tests.compat.security.python.cells import PATIENCE_S, RECORDS, REFUSED_WITHIN_S, run_cells, values_of


class _Tokens(AbstractTokenProvider):  # type: ignore[misc]
    def __init__(self, cell: Cell) -> None:
        self._token = Path(cell.token_path).read_text()

    async def token(self) -> str:
        return self._token


def settings(cell: Cell) -> dict[str, Any]:
    config: dict[str, Any] = {"bootstrap_servers": cell.bootstrap, "security_protocol": cell.protocol}
    if cell.ca:
        context = ssl.create_default_context(cafile=cell.ca)
        if cell.certificate:
            context.load_cert_chain(cell.certificate)
        config["ssl_context"] = context
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


async def _use(cell: Cell) -> list[bytes]:
    async with asyncio.timeout(PATIENCE_S):
        async with AIOKafkaProducer(**settings(cell)) as producer:
            for value in values_of(cell):
                await producer.send_and_wait(cell.topic, value, partition=0)
        async with AIOKafkaConsumer(**settings(cell)) as consumer:
            partition = TopicPartition(cell.topic, 0)
            consumer.assign([partition])
            await consumer.seek_to_beginning(partition)
            return [(await consumer.getone()).value or b"" for _ in range(RECORDS)]


async def _connect(cell: Cell) -> None:
    producer = AIOKafkaProducer(**settings(cell))
    try:
        # It takes any answer to its token for success, and then waits for metadata that never comes.
        async with asyncio.timeout(REFUSED_WITHIN_S - 2):
            await producer.start()
            await producer.send_and_wait(cell.topic, b"x", partition=0)
    finally:
        await producer.stop()


if __name__ == "__main__":
    logging.disable()
    run_cells(aiokafka.__version__, lambda cell: asyncio.run(_use(cell)), lambda cell: asyncio.run(_connect(cell)))
