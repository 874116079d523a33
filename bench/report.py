"""What every result says besides its figures (machine, commit, versions), and how it comes onto its page."""

from __future__ import annotations

import os
import platform
import shlex
import subprocess
import sys
import time
from pathlib import Path
from typing import Final, Protocol

import confluent_kafka
import msgspec

from barnabas.cores import running
from barnabas.runtime.interpreter import build_flags

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "bench/results"
PAGE = ROOT / "docs/verify/performance.md"
BUSY_LOAD: Final = 1.0


class Taken(Protocol):
    """What every run says of itself, whatever it measured."""

    @property
    def command(self) -> str: ...
    @property
    def commit(self) -> str: ...
    @property
    def taken(self) -> str: ...
    @property
    def machine(self) -> dict[str, str]: ...


def describe_machine() -> dict[str, str]:
    cpus = [line.partition(":")[2].strip() for line in _lines("/proc/cpuinfo") if line.startswith("model name")]
    memory = next((line.split()[1] for line in _lines("/proc/meminfo") if line.startswith("MemTotal")), "0")
    return {
        "cpu": f"{len(cpus)} × {cpus[0] if cpus else platform.machine()}",
        "memory": f"{int(memory) / (1 << 20):.0f} GiB",
        "kernel": platform.release(),
        "python": platform.python_version(),
        "python build": build_flags(),
        "cores": running(),
        "load average before": f"{os.getloadavg()[0]:.2f}",
    }


def is_busy(machine: dict[str, str]) -> bool:
    """Return whether others loaded the machine when a run began: its figures are worse than they could be."""
    return float(machine["load average before"]) > BUSY_LOAD


def interpreter(machine: dict[str, str]) -> str:
    """Say which Python runs our side, how it was built, and which cores it runs; older saved results lack these two."""
    build, cores = machine.get("python build"), machine.get("cores")
    return f"Python {machine['python']}" + (f" ({build})" if build else "") + (f", {cores} cores" if cores else "")


def provenance(run: Taken, also: str = "", busy: str = "**The machine was busy.**") -> str:
    """Say when, from which commit, by which command and on which machine a run was taken; ends with a full stop.

    `also` follows the load average; `busy` is said where the machine did other work before the run.
    """
    machine = run.machine
    return (
        f"Taken {run.taken} at commit {run.commit} by `{run.command}` on {machine['cpu']}, {machine['memory']}, "
        f"Linux {machine['kernel']}, {interpreter(machine)}, load average before it "
        f"{machine['load average before']}{also}.{f' {busy}' if is_busy(machine) else ''}"
    )


def save_figures(run: Taken, name: str) -> Path:
    """Write all figures of `run` under bench/results, in a file of this name and its time; return the path."""
    RESULTS.mkdir(parents=True, exist_ok=True)
    path = RESULTS / f"{name}-{run.taken.replace(':', '')}.json"
    path.write_bytes(msgspec.json.format(msgspec.json.encode(run), indent=2) + b"\n")
    return path


def without_paths(flags: dict[str, str]) -> dict[str, str]:
    """What a saved result has no use for: where the checkout lies."""
    return {key: value.replace(f"{ROOT}/", "") for key, value in flags.items()}


def _lines(path: str) -> list[str]:
    return Path(path).read_text().splitlines()


def command_line(module: str = "bench") -> str:
    return shlex.join(["python", "-m", module, *sys.argv[1:]])


def commit(checkout: Path = ROOT) -> str:
    """The checkout's, with a plus when it was changed since."""
    done = subprocess.run(
        ["git", "describe", "--always", "--dirty=+", "--abbrev=10"],
        cwd=checkout,
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout.strip() or "unknown"


def client_version() -> str:
    return f"confluent-kafka {confluent_kafka.__version__}, librdkafka {confluent_kafka.libversion()[0]}"


def utc_now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


def write_section(page: Path, begin: str, end: str, section: str) -> None:
    """Replace what is between the two marks of a page."""
    before, _, rest = page.read_text().partition(begin)
    _, _, after = rest.partition(end)
    page.write_text(f"{before}{begin}\n{section}\n{end}{after}")
