"""The images: four of the present sources, four of the last release, and etcd's."""

from __future__ import annotations

import re
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import yaml
from docker import DockerClient
from docker.errors import BuildError
from testcontainers.core.image import DockerImage

from barnabas_cli.etcd_binary import pick_etcd
from tests.images.engine import has_image
from tests.images.sources import RECIPE, ROLES, ROOT, copy_sources, wheels
from tests.releases import releases

_ETCD_RECIPE = "ARG BASE\nFROM ${BASE}\nCOPY etcd /usr/local/bin/etcd\n"


@dataclass(frozen=True, slots=True)
class Version:
    """The images of one version; `number` is that of the package in them."""

    number: str
    tag: str
    origin: str

    def image(self, role: str) -> str:
        return f"barnabas-{role}:{self.tag}"


@dataclass(frozen=True, slots=True)
class Images:
    before: Version
    present: Version
    etcd: str


@dataclass(frozen=True, slots=True)
class Builder:
    engine: DockerClient
    base: str
    offline: bool
    """Containers have no network: pip runs here, and the images are built from wheels."""

    def build(self, etcd: str) -> tuple[Images, list[str]]:
        """Build all images; return them and what was built. Raises AssertionError."""
        assert has_image(self.engine, self.base), (
            f"the engine can't pull the base image {self.base}; BASE= names another one with CPython 3.11 or newer"
        )
        with tempfile.TemporaryDirectory() as directory:
            present = self._build_version(Path(directory, "present"), put_present)
            before = self._build_version(Path(directory, "before"), put_before)
        etcd_image, etcd_origin = self._etcd_image(etcd)
        base_size = self._size(self.base)
        sizes = [f"{role} {(self._size(present.image(role)) - base_size) / 1e6:.0f} MB" for role in ROLES]
        lines = [
            f"base image: {self.base}; etcd: {etcd_origin}",
            f"{before.number}: {before.origin}",
            f"{present.number}: {present.origin}; on top of the base image: {', '.join(sizes)}",
        ]
        return Images(before, present, etcd_image), lines

    def _build_version(self, tree: Path, put_sources: Callable[[Path], Version]) -> Version:
        tree.mkdir()
        version = put_sources(tree)
        arguments = {"BASE": self.base}
        if self.offline:
            shutil.copytree(wheels(tree, self._python_version()), tree / "wheels")
            arguments["PIP_OPTIONS"] = "--no-index --find-links wheels"
        for role in ROLES:
            self._build(tree, version.image(role), RECIPE, {**arguments, "ROLE": role})
        return version

    def _build(self, context: Path, tag: str, recipe: str, arguments: dict[str, str]) -> None:
        network = {"network_mode": "none"} if self.offline else {}
        try:
            DockerImage(context, tag=tag, dockerfile_path=recipe, buildargs=arguments, **network).build()
        except BuildError as error:
            said = "".join(str(entry.get("stream", entry.get("error", ""))) for entry in error.build_log)
            raise AssertionError(f"{tag} could not be built: {said[-2000:]}") from error
        print(f"built {tag}", flush=True)

    def _etcd_image(self, name: str) -> tuple[str, str]:
        """Return the image to run and where it is from: the one of that name, else this machine's etcd in the base."""
        if has_image(self.engine, name):
            return name, name
        binary = pick_etcd(print)
        tag = "barnabas-etcd:image-test"
        with tempfile.TemporaryDirectory() as directory:
            shutil.copy(binary.path, Path(directory, "etcd"))
            Path(directory, "Dockerfile").write_text(_ETCD_RECIPE)
            self._build(Path(directory), tag, "Dockerfile", {"BASE": self.base})
        return tag, f"{binary.version_text} of this machine in the base image ({name} can't be pulled)"

    def _python_version(self) -> str:
        """Return the base image's, as pip has it: "3.12"."""
        command = ["python3", "-c", "import sys; print('%d.%d' % sys.version_info[:2])"]
        said: bytes = self.engine.containers.run(self.base, command, remove=True, network_mode="none")
        return said.decode().strip()

    def _size(self, image: str) -> int:
        size: int = self.engine.images.get(image).attrs["Size"]
        return size


def put_present(tree: Path) -> Version:
    """Put the sources of this checkout into the directory."""
    copy_sources(tree)
    return Version(_number(tree), "image-test", "the present sources")


def put_before(tree: Path) -> Version:
    """Put the last release into the directory; without history the present sources, under another version."""
    release = releases()[-1]
    reason = release.why_not_here()
    if reason is None:
        release.extract(tree)
        return Version(release.version, "image-test-before", f"the last release, commit {release.commit[:7]}")
    copy_sources(tree)
    number = f"{_number(tree)}.dev0"
    project = tree / "pyproject.toml"
    project.write_text(re.sub(r'(?m)^version = ".*"', f'version = "{number}"', project.read_text(), count=1))
    return Version(number, "image-test-before", f"the present sources under another version: {reason}")


def _number(tree: Path) -> str:
    found = re.search(r'(?m)^version = "(.*)"', (tree / "pyproject.toml").read_text())
    assert found is not None
    return found[1]


def chart_etcd() -> str:
    """Return the etcd image that the chart runs."""
    values = yaml.safe_load((ROOT / "deploy/k8s/chart/values.yaml").read_text())
    return str(values["etcd"]["bundled"]["image"])
