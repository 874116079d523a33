"""The page equals the tables: run `scripts/configuration` if this fails."""

from __future__ import annotations

import re

from barnabas.cluster.broker_config_keys import BROKER_KEYS
from barnabas.cluster.kafka_config_keys import REMOVED, UNSUPPORTED
from barnabas.cluster.topic_config_keys import TOPIC_KEYS
from scripts.pages.configuration import PAGE, page


def test_the_page_is_up_to_date() -> None:
    assert PAGE.read_text() == page()


def test_the_page_has_every_key() -> None:
    reported = set(re.findall(r"`([a-z0-9.]+(?:\.[A-Za-z]+)*)`", PAGE.read_text()))
    assert {*BROKER_KEYS, *TOPIC_KEYS, *UNSUPPORTED, *REMOVED} - reported == set()
