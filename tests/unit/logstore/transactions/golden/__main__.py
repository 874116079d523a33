"""Rewrite the golden file."""

from __future__ import annotations

from tests.unit.logstore.transactions.golden import GOLDEN_FILE, kafka_writes

GOLDEN_FILE.write_text(kafka_writes())
