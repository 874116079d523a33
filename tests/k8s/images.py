"""Barnabas' images for a node without a registry or a network: wheels are fetched first, docker builds offline."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

from tests.k8s.cluster import BASE, ROOT, Cluster

ROLES = ("gateway", "logstore", "purgatory", "controller")
ETCD_TAG = "v3.6.16"
IN_CONTEXT = ("barnabas", "services", "protos", "deploy", "pyproject.toml", "constraints.txt", "README.md", "LICENSE")


def build(cluster: Cluster, tag: str) -> dict[str, str]:
    """Build and load an image of each role, and of etcd; their sizes above the base image's, by role."""
    with tempfile.TemporaryDirectory() as directory:
        context = Path(directory)
        for name in IN_CONTEXT:
            source = ROOT / name
            if source.is_dir():
                shutil.copytree(source, context / name, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                shutil.copy(source, context / name)
        _fetch_wheels(context / "wheels")
        for role in ROLES:
            image = f"{cluster.registry}/barnabas-{role}:{tag}"
            arguments = [f"BASE={BASE}", f"ROLE={role}", "PIP_OPTIONS=--no-index --find-links wheels"]
            options = [option for argument in arguments for option in ("--build-arg", argument)]
            recipe = str(context / "deploy/k8s/Dockerfile")
            cluster.run(
                "docker", "build", "--quiet", "--network", "none", "--file", recipe, *options, "--tag", image, directory
            )
            load(cluster, image)
    _build_etcd(cluster)
    base = megabytes(cluster, BASE)
    return {role: f"{megabytes(cluster, f'{cluster.registry}/barnabas-{role}:{tag}') - base:.0f} MB" for role in ROLES}


def _fetch_wheels(directory: Path) -> None:
    """Of what Barnabas needs and of what builds it, for the base image's interpreter."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    needed = [*project["dependencies"], *extras["gateway"], *extras["logstore"], "hatchling"]
    options = ["--quiet", "--only-binary", ":all:", "--python-version", "3.11", "--constraint", "constraints.txt"]
    command = [python_with_pip(), "-m", "pip", "download", *options, "--dest", str(directory), *needed]
    subprocess.run(command, check=True, cwd=ROOT)


def python_with_pip() -> str:
    """A venv that uv has made is without."""
    for python in (sys.executable, "python3"):
        if subprocess.run([python, "-m", "pip", "--version"], capture_output=True).returncode == 0:
            return python
    raise AssertionError("no pip: python3 -m pip is needed to fetch wheels for the images")


def _build_etcd(cluster: Cluster) -> None:
    """Of the node's own binary: the chart names a public image, which can't be pulled here."""
    image = f"{cluster.registry}/etcd:{ETCD_TAG}"
    with tempfile.TemporaryDirectory() as directory:
        shutil.copy(cluster.run("which", "etcd").strip(), Path(directory, "etcd"))
        recipe = "FROM scratch\nCOPY etcd /usr/local/bin/etcd\nENV PATH=/usr/local/bin\n"
        Path(directory, "Dockerfile").write_text(recipe)
        cluster.run("docker", "build", "--quiet", "--network", "none", "--tag", image, directory)
    load(cluster, image)


def load(cluster: Cluster, image: str) -> None:
    assert cluster.node_tool is not None
    subprocess.run([cluster.node_tool, "load", image], check=True, capture_output=True)


def megabytes(cluster: Cluster, image: str) -> float:
    return int(cluster.run("docker", "image", "inspect", "--format", "{{.Size}}", image)) / 1e6
