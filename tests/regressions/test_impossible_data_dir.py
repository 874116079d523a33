"""A data directory that can't be made is one clear line, not a traceback."""

from __future__ import annotations

from pathlib import Path

from click.testing import CliRunner

from barnabas_cli.__main__ import main


def test_up_where_no_directory_can_be(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    result = CliRunner().invoke(main, ["up", "--data-dir", str(tmp_path / "file" / "data")])
    assert result.exit_code == 1
    assert isinstance(result.exception, SystemExit)
    assert result.output.splitlines() == [f"error: {tmp_path}/file/data can't hold a cluster: Not a directory"]
