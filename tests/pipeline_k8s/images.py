"""The pipeline's image for a node without a registry or a network: wheels are fetched first, docker builds offline."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from tests.images.sources import python_with_pip
from tests.k8s.cluster import BASE, ROOT, Cluster, CommandFailed
from tests.k8s.images import load, megabytes

PIPELINE = ROOT / "deploy/pipeline"
WHEELS = ROOT / ".cache/pipeline-image/wheels"
JDK = "local/jdk:17"
JDK_RECIPE = f"""\
FROM {BASE}
COPY jdk /usr/lib/jvm/java-17
ENV PATH=/usr/lib/jvm/java-17/bin:$PATH
"""


def build(cluster: Cluster, image: str) -> float:
    """Build and load it; megabytes above the base image's. It sees what Dockerfile.dockerignore lets through."""
    fetch_wheels()
    _build_jdk(cluster)
    with tempfile.TemporaryDirectory(prefix="barnabas-pipeline-image-") as directory:
        context = Path(directory)
        for name in in_context():
            source = ROOT / name
            if source.is_dir():
                shutil.copytree(source, context / name, ignore=shutil.ignore_patterns("__pycache__"))
            elif source.exists():
                (context / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(source, context / name)
        shutil.copytree(WHEELS, context / "wheels", copy_function=os.link)
        arguments = [f"BASE={BASE}", f"JAVA={JDK}", "PIP_OPTIONS=--no-index --find-links wheels"]
        options = [option for argument in arguments for option in ("--build-arg", argument)]
        recipe = str(context / "deploy/pipeline/Dockerfile")
        command = ["docker", "build", "--quiet", "--network", "none", "--file", recipe, *options, "--tag", image]
        cluster.run(*command, directory, timeout_s=1800)
    load(cluster, image)
    return megabytes(cluster, image) - megabytes(cluster, BASE)


def in_context() -> list[str]:
    """What the build may see of this repository."""
    lines = (PIPELINE / "Dockerfile.dockerignore").read_text().splitlines()
    return [line.removeprefix("!") for line in lines if line.startswith("!") and line != "!wheels"]


def fetch_wheels() -> None:
    """Get wheels of all that `barnabas-pipeline` needs and of what builds it, for CPython 3.11; kept in .cache.

    PySpark comes without a wheel: its own is built here, once.
    """
    WHEELS.mkdir(parents=True, exist_ok=True)
    pins = ["--constraint", str(ROOT / "constraints.txt"), "--constraint", str(ROOT / "constraints-pipeline.txt")]
    command = [
        python_with_pip(),
        "-m",
        "pip",
        "wheel",
        "--quiet",
        "--wheel-dir",
        str(WHEELS),
        "--find-links",
        str(WHEELS),
    ]
    subprocess.run([*command, *pins, str(ROOT), str(ROOT / "pipeline"), "hatchling"], check=True)
    for own in [*WHEELS.glob("barnabas-*.whl"), *WHEELS.glob("barnabas_pipeline-*.whl")]:
        own.unlink()


def _build_jdk(cluster: Cluster) -> None:
    """This machine's JDK 17 upon the base: the image that users take it from can't be pulled here."""
    if is_there(cluster, JDK):
        return
    java = shutil.which("javac")
    assert java is not None, "no javac on PATH: the image's Java is made of this machine's JDK 17"
    with tempfile.TemporaryDirectory(prefix="barnabas-jdk-") as directory:
        shutil.copytree(Path(java).resolve().parents[1], Path(directory, "jdk"), ignore_dangling_symlinks=True)
        Path(directory, "Dockerfile").write_text(JDK_RECIPE)
        cluster.run("docker", "build", "--quiet", "--network", "none", "--tag", JDK, directory)


def is_there(cluster: Cluster, image: str) -> bool:
    try:
        cluster.run("docker", "image", "inspect", image)
    except CommandFailed:
        return False
    return True
