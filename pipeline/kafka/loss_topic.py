"""Losses written down, one record each, where `onDataLoss` is `record`."""

from __future__ import annotations

import json
from collections.abc import Iterable

from confluent_kafka import Producer

from pipeline.core.errors import RequestRefused
from pipeline.core.losses import Loss
from pipeline.core.settings import ClientSettings


def write_losses(settings: ClientSettings, topic: str, losses: Iterable[Loss]) -> None:
    """Returns when all are acknowledged. A loss that is noticed twice is written twice, with the same key."""
    failures: list[str] = []

    def delivered(error: object, _: object) -> None:
        if error is not None:
            failures.append(str(error))

    producer = Producer(
        {
            "bootstrap.servers": settings.bootstrap_servers,
            "enable.idempotence": True,
            "message.timeout.ms": settings.api_timeout_ms,
        }
    )
    for loss in losses:
        producer.produce(topic, json.dumps(loss.to_dict()), loss.key, on_delivery=delivered)
    unsent = producer.flush(settings.api_timeout_ms / 1000)
    if failures or unsent:
        raise RequestRefused(
            f"losses can't be written to dataLossTopic {topic}: {(failures or ['no answer in time'])[0]}"
        )
