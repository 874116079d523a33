"""What a job says of itself after every batch."""

from __future__ import annotations

from dataclasses import asdict, dataclass


@dataclass(frozen=True, slots=True)
class BatchFigures:
    """One batch, committed. `freshness_ms`: now less the timestamp of the newest row that a reader sees; None as long
    as the run has brought no row. `lag`: records of the topics that the tables lack. All times in ms."""

    batch_id: int
    rows: int
    dead_letters: int
    duration_ms: int
    lag: int
    freshness_ms: int | None

    @property
    def rows_per_second(self) -> float:
        return self.rows * 1000 / max(self.duration_ms, 1)

    def line(self) -> str:
        fresh = "-" if self.freshness_ms is None else f"{self.freshness_ms / 1000:.1f} s"
        dead = f", {self.dead_letters:,} dead letters" if self.dead_letters else ""
        return (
            f"batch {self.batch_id}: {self.rows:,} rows{dead} in {self.duration_ms / 1000:.1f} s "
            f"({self.rows_per_second:,.0f}/s), lag {self.lag:,}, freshness {fresh}"
        )

    def document(self) -> dict[str, object]:
        return {**asdict(self), "rows_per_second": round(self.rows_per_second, 1)}
