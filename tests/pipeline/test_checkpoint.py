"""A checkpoint that is not as Spark left it: one line that says what to do."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("pyarrow", reason="no pyarrow here (make pipeline-test)")

from barnabas_pipeline.tables.checkpoint import newest_checkpoint
from barnabas_pipeline.tables.contract import TableError


@pytest.mark.parametrize(
    "damaged",
    [
        b"",
        b"v1\n",
        b'v1\n{}\n{"orders": {"id": "a", "offs',
        b'v1\n{}\n{"orders": {"offsets": {"0": 1}}}',
        b'v1\n{}\n{"orders": {"id": "a", "offsets": {"0": null}}}',
        b'v1\n{"batchWatermarkMs": 0}',
        b"v1\n{}\n[1]",
        b"v1\n{}\n\xff\xfe",
    ],
)
def test_a_damaged_checkpoint_is_one_line(tmp_path: Path, damaged: bytes) -> None:
    offsets = tmp_path / "0001-run" / "offsets"
    offsets.mkdir(parents=True)
    (offsets / "0").write_bytes(damaged)
    with pytest.raises(TableError, match=r"offsets/0 is damaged; delete file:///.*/0001-run") as refused:
        newest_checkpoint(f"file://{tmp_path}")
    assert len(str(refused.value).splitlines()) == 1
