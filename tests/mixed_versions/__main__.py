from __future__ import annotations

import argparse
import compileall
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.faults.cluster import UnhealthyError, signals_end_the_run
from tests.faults.groups.members import MembersError
from tests.faults.rolling_groups import summary, table
from tests.faults.workload import WorkloadError
from tests.mixed_versions import rolling_upgrade
from tests.mixed_versions.rolling_upgrade import ONE_OF_EACH, ORDER, MixedCluster, RollingUpgrade, found_in
from tests.releases import ROOT, Release, releases

SKIPPED = 77
"""As automake has it."""


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.mixed_versions", description=rolling_upgrade.__doc__)
    parser.add_argument("--seed", type=int, default=1, help="of the times between restarts, and of the clients")
    parser.add_argument("--short", action="store_true", help="one process of each kind, and not back again")
    parser.add_argument("--save", type=Path, help="write what came out to this file too")
    arguments = parser.parse_args()
    release = releases()[-1]
    reason = release.why_not_here()
    if reason is not None:
        print(f"skipped: {reason}")
        return SKIPPED
    signals_end_the_run()
    directory = Path(tempfile.mkdtemp(prefix="mixed-versions-"))
    tree = directory / release.version
    tree.mkdir()
    release.extract(tree, "barnabas", "services", "protos")
    # Once, and not by each of its processes, which all start at the same moment.
    compileall.compile_dir(tree, quiet=1, workers=0)
    assert found_in(tree, "barnabas").is_relative_to(tree)
    services = ONE_OF_EACH if arguments.short else (*ORDER, *reversed(ORDER))
    with MixedCluster(tree, ORDER) as cluster:
        print(f"version {release.version} started in {cluster.start():.1f} s", flush=True)
        rolling = RollingUpgrade(cluster, directory, arguments.seed)
        try:
            log, group = rolling.run(services, times=1)
        except (UnhealthyError, MembersError, WorkloadError) as failure:
            shutil.copytree(cluster.layout.directory / "logs", directory / "logs")
            print(f"{failure}; all that was seen is in {directory}")
            return 1
        is_clean = log.is_clean and group.is_clean
        if not is_clean:
            shutil.copytree(cluster.layout.directory / "logs", directory / "logs")
    lines = [*table(rolling.restarts, group), str(group), str(log), summary(len(rolling.restarts), log, group)]
    if arguments.save is not None:
        arguments.save.write_text(page(release, lines))
    if is_clean:
        shutil.rmtree(directory)
    else:
        lines.append(f"all that was seen is in {directory}")
    print("\n".join(lines))
    return 0 if is_clean else 1


def page(release: Release, lines: list[str]) -> str:
    """The result as it is saved."""
    commit = subprocess.run(
        ["git", "-C", str(ROOT), "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False
    ).stdout.strip()
    return (
        f"# A rolling upgrade from {release.version} and back\n\n`make mixed-versions` at {commit or 'no commit'}: all "
        f"services of version {release.version}, each stopped and started again with the present code, then the other "
        "way round in the opposite order.\n\n```\n" + "\n".join(lines) + "\n```\n"
    )


if __name__ == "__main__":
    sys.exit(main())
