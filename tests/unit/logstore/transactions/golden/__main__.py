"""Rewrite the golden file of the records, or of the answers."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.unit.logstore.transactions.golden import ANSWERS_FILE, GOLDEN_FILE, kafka_answers, kafka_writes

if sys.argv[1:2] == ["answers"]:
    ANSWERS_FILE.write_text(kafka_answers(Path(sys.argv[2])))
else:
    GOLDEN_FILE.write_text(kafka_writes())
