from __future__ import annotations

from tests.unit.wire.golden import GOLDEN_FILE, kafka_encodes

GOLDEN_FILE.write_text("".join(f"{name} {encoded}\n" for name, encoded in kafka_encodes().items()))
