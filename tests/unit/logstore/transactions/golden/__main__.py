"""Rewrite the golden files of the records and of the answers."""

from __future__ import annotations

from tests.unit.logstore.transactions.golden import ANSWERS_FILE, GOLDEN_FILE, kafka_answers, kafka_writes

GOLDEN_FILE.write_text(kafka_writes())
ANSWERS_FILE.write_text(kafka_answers())
