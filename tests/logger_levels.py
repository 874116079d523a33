"""The loggers of a process that has two, for cores without one."""

from __future__ import annotations

from collections.abc import Mapping


class FixedLoggers:
    def __init__(self) -> None:
        self.own: dict[str, str] = {"root": "INFO"}

    def levels(self) -> dict[str, str]:
        return {name: self.own.get(name, self.own["root"]) for name in ("root", "logstore", "logstore.links")}

    def change(self, changes: Mapping[str, str | None]) -> None:
        own = {**self.own, **changes}
        self.own = {name: level for name, level in own.items() if level is not None}
