"""The pipeline on a real Kubernetes: `python -m tests.pipeline_k8s [--steps build,install,submitted]`, into results/.

On a node of this machine's own (tests/k8s/cluster.py says how one is found): its volumes are directories here, in which
delta-rs counts.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path

from tests.k8s.cluster import NoCluster, find_cluster, reachable_api_server
from tests.pipeline_k8s.steps import STEPS
from tests.pipeline_k8s.trial import Trial

RESULTS = Path(__file__).parent / "results"
IMAGE = "barnabas-pipeline:e2e"
NOT_SHOWN = """\
What this cannot show: several nodes, with a file system that all of them write to (one node, one directory), an object
store, a namespace's quotas, images pulled from a registry.
"""


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.pipeline_k8s")
    parser.add_argument("--steps", default="", help=f"some of {','.join(STEPS)}; all of them without")
    chosen = [name for name in parser.parse_args().steps.split(",") if name] or list(STEPS)
    unknown = [name for name in chosen if name not in STEPS]
    if unknown:
        parser.error(f"no step is called {unknown[0]}; they are {', '.join(STEPS)}")
    try:
        cluster = find_cluster()
        if cluster.node_tool is None:
            raise NoCluster("the tables are counted in a volume of a node on this machine: set K8S_NODE to a node tool")
    except NoCluster as reason:
        print(f"skipped: {reason}")
        return
    trial = Trial(cluster, f"{cluster.registry}/{IMAGE}")
    kubernetes = json.loads(cluster.run("kubectl", "version", "--output", "json"))["serverVersion"]["gitVersion"]
    lines = [f"# Topics to tables on Kubernetes {kubernetes}", ""]
    failed = False
    with reachable_api_server(trial.cluster):
        for name in chosen:
            step = STEPS[name]
            started_s = time.monotonic()
            try:
                reported, outcome = step(trial), "passed"
            except AssertionError as error:
                reported, outcome, failed = [str(error)], "FAILED", True
            heading = f"{name}: {(step.__doc__ or '').strip()}"
            seconds = time.monotonic() - started_s
            lines += [f"## {heading}", "", f"{outcome} in {seconds:.0f} s", "", *(f"- {line}" for line in reported), ""]
            print(f"{outcome}  {heading}", *reported, sep="\n    ", flush=True)
            if chosen == list(STEPS):
                RESULTS.mkdir(exist_ok=True)
                (RESULTS / f"kubernetes-{kubernetes}.md").write_text("\n".join([*lines, NOT_SHOWN]))
            if failed:
                break
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
