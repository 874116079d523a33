"""What the command makes of its flags and of a job file."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("pyiceberg", reason="needs the pipeline's environment (make pipeline)")
pytest.importorskip("deltalake", reason="needs the pipeline's environment (make pipeline)")

from click.testing import CliRunner

from barnabas_pipeline.cli.__main__ import main
from barnabas_pipeline.core.replay import ReplayJob
from barnabas_pipeline.replay import running

TEN_MS = 1_795_341_600_000  # 2026-11-22T10:00 in UTC
DAY_MS = 86_400_000


def job_of(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> ReplayJob:
    jobs: list[ReplayJob] = []

    def run(job: ReplayJob, say: object) -> int:
        jobs.append(job)
        return 0

    monkeypatch.setattr(running, "run_replay", run)
    result = CliRunner().invoke(main, ["replay", "--target", "copy", "--source-topic", "orders", *arguments])
    assert result.exit_code == 0, result.output
    return jobs[0]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("job.yaml", "since: 2026-11-21 10:00:00\nuntil: 2026-11-22T10:00"),
        ("job.yaml", f"since: {TEN_MS - DAY_MS}\nuntil: '{TEN_MS}'"),
        ("job.yaml", "since: 2026-11-21T11:00:00+01:00\nuntil: 2026-11-22T10:00:00Z"),
        ("job.toml", "since = 2026-11-21T10:00:00Z\nuntil = '2026-11-22T10:00'"),
    ],
)
def test_a_job_file_has_the_times_by_their_flags_names(
    name: str, text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They were unknown fields."""
    path = tmp_path / name
    path.write_text(text)
    job = job_of(monkeypatch, "--job", str(path))
    assert (job.since_ms, job.until_ms) == (TEN_MS - DAY_MS, TEN_MS)
    job = job_of(monkeypatch, "--job", str(path), "--until", str(TEN_MS + 1))
    assert (job.since_ms, job.until_ms) == (TEN_MS - DAY_MS, TEN_MS + 1)


def test_a_day_of_a_job_file_begins_at_midnight(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, text in (("job.yaml", "since: 2026-11-22"), ("job.toml", "since = 2026-11-22")):
        (tmp_path / name).write_text(text)
        job = job_of(monkeypatch, "--job", str(tmp_path / name))
        assert job.since_ms == TEN_MS - 10 * 3_600_000 == job_of(monkeypatch, "--since", "2026-11-22").since_ms


@pytest.mark.parametrize("text", ["since: yesterday", "since: true", "until: [1]"])
def test_what_is_no_time_is_reported(text: str, tmp_path: Path) -> None:
    (tmp_path / "job.yaml").write_text(text)
    arguments = ["replay", "--target", "copy", "--source-topic", "orders", "--job", str(tmp_path / "job.yaml")]
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == 1
    assert "is not a time: use 2026-11-22T10:00 or milliseconds since 1970" in result.output
