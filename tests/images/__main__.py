"""Build the images and run them under testcontainers: `python -m tests.images [--steps kill]`, into results/.

Exit code 0 also where there is no Docker engine: one line says so.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from pathlib import Path

from docker.errors import DockerException

from tests.faults.cluster import signals_end_the_run
from tests.images.builds import Builder, chart_etcd
from tests.images.engine import NoEngine, find_engine, prepare_reaper, remove_leftovers
from tests.images.sources import ROOT
from tests.images.steps import STEPS, Trial

RESULTS = Path(__file__).parent / "results/image-test.md"
BUILD = "build"
_BUILD_TITLE = "Images of every role, of this version and the last one, with the layers that the engine had."
NOT_SHOWN = """\
What this does not show: images for other architectures, images pulled from a registry, more than one gateway behind an
address, orchestration (`make k8s-e2e` runs the chart).
"""


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.images")
    parser.add_argument("--base", default="python:3.12-slim", help="the image to build on")
    parser.add_argument("--offline", action="store_true", help="containers have no network: build from wheels")
    parser.add_argument("--etcd-image", default=chart_etcd(), help="default: the chart's")
    parser.add_argument("--steps", default="", help=f"some of {','.join((BUILD, *STEPS))}; all of them without")
    arguments = parser.parse_args()
    chosen = [name for name in arguments.steps.split(",") if name] or list(STEPS)
    unknown = set(chosen) - {BUILD, *STEPS}
    if unknown:
        parser.error(f"no step is called {unknown.pop()}; they are {', '.join((BUILD, *STEPS))}")
    try:
        engine = find_engine()
    except NoEngine as reason:
        print(f"skipped: {reason}")
        return 0
    signals_end_the_run()
    page = Page(" ".join(f"{name}={value}" for name, value in settings(arguments)), engine.version()["Version"])
    try:
        builder = Builder(engine, arguments.base, arguments.offline)
        started_s = time.monotonic()
        images, lines = builder.build(arguments.etcd_image)
        lines.append(f"testcontainers' Ryuk: {prepare_reaper(engine)}")
        page.add(BUILD, _BUILD_TITLE, lines, time.monotonic() - started_s)
        for name in chosen:
            if name != BUILD:
                started_s = time.monotonic()
                lines = STEPS[name](Trial(engine, images))
                page.add(name, (STEPS[name].__doc__ or "").strip(), lines, time.monotonic() - started_s)
    except (AssertionError, DockerException) as error:
        print(f"FAILED: {error}", *getattr(error, "__notes__", ()), sep="\n    ")
        return 1
    finally:
        remove_leftovers(engine)
    if set(chosen) >= set(STEPS):
        page.save()
    return 0


def settings(arguments: argparse.Namespace) -> list[tuple[str, str]]:
    """Return what make was given, as far as it is not the default."""
    given = [("BASE", arguments.base)]
    if arguments.offline:
        given.append(("OFFLINE", "1"))
    if arguments.etcd_image != chart_etcd():
        given.append(("ETCD_IMAGE", arguments.etcd_image))
    return given


class Page:
    """What is printed while it happens, and saved when every step has passed."""

    def __init__(self, settings: str, engine: str) -> None:
        commit = subprocess.run(
            ["git", "-C", str(ROOT), "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False
        ).stdout.strip()
        self._lines = [
            "# The images under testcontainers",
            "",
            f"`make image-test {settings}` at {commit or 'no commit'}, Docker engine {engine}.",
            "",
        ]

    def add(self, name: str, title: str, seen: list[str], seconds: float) -> None:
        print(f"passed  {name}: {title}", *seen, sep="\n    ", flush=True)
        items = [f"- {line}" for line in seen]
        self._lines += [f"## {name}: {title}", "", f"Passed in {seconds:.0f} s.", "", *items, ""]

    def save(self) -> None:
        RESULTS.parent.mkdir(exist_ok=True)
        RESULTS.write_text("\n".join([*self._lines, NOT_SHOWN]))


if __name__ == "__main__":
    sys.exit(main())
