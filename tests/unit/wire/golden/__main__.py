from __future__ import annotations

from pathlib import Path

from tests.unit.wire.golden import (
    GOLDEN_FILE,
    IN_KAFKA,
    IN_OLDER_KAFKA,
    JARS,
    OLDER_GOLDEN_FILE,
    OLDER_JARS,
    SERVES_FILE,
    kafka_encodes,
    kafka_serves,
)
from tests.unit.wire.golden.schemas import SCHEMAS_FILE, read_jar


def write(file: Path, encoded: dict[str, str]) -> None:
    file.write_text("".join(f"{name} {hexadecimal}\n" for name, hexadecimal in encoded.items()))


SERVES_FILE.write_text(kafka_serves())
SCHEMAS_FILE.write_text(read_jar(JARS))
write(GOLDEN_FILE, kafka_encodes(IN_KAFKA, JARS))
write(OLDER_GOLDEN_FILE, kafka_encodes(IN_OLDER_KAFKA, OLDER_JARS, JARS))
