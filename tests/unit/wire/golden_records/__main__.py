from __future__ import annotations

from tests.unit.wire.golden_records import GOLDEN_FILE, kafka_writes

GOLDEN_FILE.write_text(kafka_writes())
