"""Write losses to a topic, one record each, if `onDataLoss` is `record`."""

from __future__ import annotations

import json
from collections.abc import Iterable

from confluent_kafka import Producer

from barnabas.cluster.access.client_properties import librdkafka_properties
from barnabas_pipeline.core.errors import RequestRefused
from barnabas_pipeline.core.losses import Loss
from barnabas_pipeline.core.settings import PRODUCER_LOG_LEVEL, ClientSettings
from barnabas_pipeline.kafka.deliveries import Deliveries
from barnabas_pipeline.kafka.librdkafka_config import librdkafka_config


def write_losses(settings: ClientSettings, topic: str, losses: Iterable[Loss]) -> None:
    """Return when all are acknowledged. A loss that is noticed twice is written twice, with the same key."""
    deliveries = Deliveries()
    producer = Producer(
        {
            "bootstrap.servers": settings.bootstrap_servers,
            "enable.idempotence": True,
            "message.timeout.ms": settings.api_timeout_ms,
            "log_level": PRODUCER_LOG_LEVEL,
            "error_cb": deliveries.met,
            **librdkafka_config(librdkafka_properties(dict(settings.security))),
        }
    )
    for loss in losses:
        producer.produce(topic, json.dumps(loss.to_dict()), loss.key, on_delivery=deliveries.delivered)
    unsent = producer.flush(settings.api_timeout_ms / 1000)
    if deliveries.failure is not None or unsent:
        reason = deliveries.failure or deliveries.why("no answer in time")
        raise RequestRefused(f"losses can't be recorded (dataLossTopic): {reason}")
