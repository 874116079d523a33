"""The chart on a real Kubernetes: `python -m tests.k8s [--steps roll,evict]`; what passes is in tests/k8s/results/."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path

from tests.k8s.cluster import ROOT, NoCluster, find_cluster, reachable_api_server
from tests.k8s.steps import STEPS
from tests.k8s.trial import Trial

RESULTS = Path(__file__).parent / "results"
NOT_SHOWN = """\
What this cannot show: NetworkPolicies and zones (a node of one's own enforces no policies and is alone), a load
balancer, an autoscaler (no metrics server), and images pulled from a registry. The step `colocated` shows lanes and
addresses, and not that a gateway is placed beside its logstore: there is one node.
"""


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.k8s")
    parser.add_argument("--steps", default="", help=f"some of {','.join(STEPS)}; all of them without")
    chosen = [name for name in parser.parse_args().steps.split(",") if name] or list(STEPS)
    unknown = [name for name in chosen if name not in STEPS]
    if unknown:
        parser.error(f"no step is called {unknown[0]}; they are {', '.join(STEPS)}")
    try:
        cluster = find_cluster()
    except NoCluster as reason:
        print(f"skipped: {reason}")
        return
    trial = Trial(cluster)
    version = json.loads(cluster.run("kubectl", "version", "--output", "json"))["serverVersion"]["gitVersion"]
    path = RESULTS / f"kubernetes-{version}.md"
    failed = False
    with reachable_api_server(cluster):
        for name in chosen:
            step = STEPS[name]
            started_s = time.monotonic()
            try:
                reported, outcome = step(trial), "passed"
            except AssertionError as error:
                reported, outcome, failed = [str(error)], "FAILED", True
            heading = f"{name}: {(step.__doc__ or '').strip()}"
            print(f"{outcome}  {heading}", *reported, sep="\n    ", flush=True)
            if failed:
                break
            took = f"{outcome} in {time.monotonic() - started_s:.0f} s, at {commit()}"
            section = "\n".join([f"## {heading}", "", took, "", *(f"- {line}" for line in reported), ""])
            save(path, f"# The chart on Kubernetes {version}\n", name, section)
    sys.exit(1 if failed else 0)


def save(path: Path, title: str, name: str, section: str) -> None:
    """Replace the outcome of one step, and keep those of the others, in the order of the steps."""
    saved = path.read_text() if path.exists() else ""
    sections = {each.partition(":")[0]: f"## {each}" for each in saved.removesuffix(NOT_SHOWN).split("\n## ")[1:]}
    sections[name] = section
    outcomes = [sections[each].rstrip("\n") + "\n" for each in STEPS if each in sections]
    path.parent.mkdir(exist_ok=True)
    path.write_text("\n".join([title, *outcomes, NOT_SHOWN]))


def commit() -> str:
    """The commit that was tried, and whether more than it was."""

    def git(*arguments: str) -> str:
        return subprocess.run(["git", *arguments], capture_output=True, text=True, check=True, cwd=ROOT).stdout.strip()

    changed = git("status", "--porcelain", "--", ".", f":!{RESULTS.relative_to(ROOT)}")
    return f"{git('rev-parse', '--short', 'HEAD')}{' with changes' if changed else ''}"


if __name__ == "__main__":
    main()
