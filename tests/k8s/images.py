"""Barnabas' images for a node without a registry or a network: wheels are fetched first, docker builds offline."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from pathlib import Path

from tests.images.sources import RECIPE, ROLES, copy_sources, wheels
from tests.k8s.cluster import BASE, Cluster

ETCD_TAG = "v3.6.16"
BASE_PYTHON = "3.11"


def build(cluster: Cluster, tag: str) -> dict[str, str]:
    """Build and load an image of each role, and of etcd; their sizes above the base image's, by role."""
    with tempfile.TemporaryDirectory() as directory:
        context = Path(directory)
        copy_sources(context)
        shutil.copytree(wheels(context, BASE_PYTHON), context / "wheels")
        for role in ROLES:
            image = f"{cluster.registry}/barnabas-{role}:{tag}"
            arguments = [f"BASE={BASE}", f"ROLE={role}", "PIP_OPTIONS=--no-index --find-links wheels"]
            options = [option for argument in arguments for option in ("--build-arg", argument)]
            recipe = str(context / RECIPE)
            cluster.run(
                "docker", "build", "--quiet", "--network", "none", "--file", recipe, *options, "--tag", image, directory
            )
            load(cluster, image)
    _build_etcd(cluster)
    base = megabytes(cluster, BASE)
    return {role: f"{megabytes(cluster, f'{cluster.registry}/barnabas-{role}:{tag}') - base:.0f} MB" for role in ROLES}


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
