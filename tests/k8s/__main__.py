"""The chart on a real Kubernetes: `python -m tests.k8s [--steps roll,evict]`, into tests/k8s/results/."""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path

from tests.k8s.cluster import NoCluster, find_cluster, reachable_api_server
from tests.k8s.steps import STEPS
from tests.k8s.trial import Trial

RESULTS = Path(__file__).parent / "results"
NOT_SHOWN = """\
What this cannot show: NetworkPolicies and zones (a node of one's own enforces no policies and is alone), a load
balancer, an autoscaler (no metrics server), and images pulled from a registry.
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
    lines = [f"# The chart on Kubernetes {version}", ""]
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
            lines += [
                f"## {heading}",
                "",
                f"{outcome} in {time.monotonic() - started_s:.0f} s",
                "",
                *(f"- {line}" for line in reported),
                "",
            ]
            print(f"{outcome}  {heading}", *reported, sep="\n    ", flush=True)
            if failed:
                break
    if chosen == list(STEPS):
        RESULTS.mkdir(exist_ok=True)
        (RESULTS / f"kubernetes-{version}.md").write_text("\n".join([*lines, NOT_SHOWN]))
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
