"""The manifests for kubectl: the chart as it renders by default, in a namespace of its own.

`scripts/manifests` writes them, `scripts/manifests check` says which differ. A chart can't reach outside of its own
directory: it has copies of the alerts and the dashboard, which are written and checked too.
"""

from __future__ import annotations

import sys

from scripts.kubernetes.chart import CHART, ROOT, render_files

MANIFESTS = ROOT / "deploy/k8s/manifests"
HEADER = "# Rendered from deploy/k8s/chart by `make manifests`: change that.\n"
NAMESPACE = """\
apiVersion: v1
kind: Namespace
metadata:
  name: barnabas
  labels:
    app.kubernetes.io/part-of: barnabas
    pod-security.kubernetes.io/enforce: restricted
"""
COPIED = ("alerts.yaml", "dashboard.json")
# Helm has no part in what kubectl applies.
OF_HELM = ("app.kubernetes.io/managed-by:", "helm.sh/chart:")


def manifests() -> dict[str, str]:
    """By file name; the namespace sorts first, as kubectl applies them."""
    files = {"00-namespace.yaml": HEADER + NAMESPACE}
    for name, text in render_files(namespace="barnabas").items():
        lines = [line.rstrip() for line in text.strip().splitlines() if not line.strip().startswith(OF_HELM)]
        files[name] = HEADER + "\n".join(lines).removeprefix("---\n") + "\n"
    return files


def differing() -> list[str]:
    """Names of files that are missing, stale or there in vain."""
    expected = manifests()
    present = {path.name: path.read_text() for path in MANIFESTS.glob("*.yaml")}
    return sorted(name for name in expected.keys() | present.keys() if expected.get(name) != present.get(name))


def stale_copies() -> list[str]:
    """What the chart brings for monitoring, and deploy/observability has otherwise by now."""
    pairs = [(ROOT / "deploy/observability" / name, CHART / "files" / name) for name in COPIED]
    return [copy.name for source, copy in pairs if not copy.exists() or copy.read_text() != source.read_text()]


def main() -> None:
    if sys.argv[1:] == ["check"]:
        stale = [*differing(), *stale_copies()]
        sys.exit(f"deploy/k8s: {', '.join(stale)} are not what they are made of: make manifests" if stale else 0)
    for name in stale_copies():
        (CHART / "files" / name).write_text((ROOT / "deploy/observability" / name).read_text())
    MANIFESTS.mkdir(exist_ok=True)
    for name in differing():
        (MANIFESTS / name).unlink(missing_ok=True)
    for name, text in manifests().items():
        (MANIFESTS / name).write_text(text)
    print(f"{len(manifests())} manifests in deploy/k8s/manifests")


if __name__ == "__main__":
    main()
