"""The Docker engine: whether there is one, which images it has or can pull, and what a run leaves on it."""

from __future__ import annotations

from typing import Final

from docker import DockerClient
from docker.errors import APIError, DockerException
from testcontainers.core import docker_client as testcontainers_client
from testcontainers.core.config import testcontainers_config
from testcontainers.core.labels import SESSION_ID

LABEL: Final = "barnabas.image-test"
"""On every container, volume and network of a run; its value is the run's."""
LABELS: Final = {LABEL: SESSION_ID}
_DEFAULT: Final = "unix:///var/run/docker.sock"


class NoEngine(Exception):  # noqa: N818  (the reason why nothing is tested)
    """One line that says where no engine answers."""


def find_engine() -> DockerClient:
    """Connect to the engine that `docker` uses: DOCKER_HOST, the context, or the default. Raises NoEngine."""
    try:
        client = testcontainers_client.DockerClient().client
        client.ping()
    except (DockerException, OSError):
        where = testcontainers_client.get_docker_host() or _DEFAULT
        raise NoEngine(f"no Docker engine answers at {where} (DOCKER_HOST names another one)") from None
    return client


def host_of_ports() -> str:
    """Return the address where the ports that containers publish are reached."""
    host = testcontainers_client.DockerClient().host()
    return "127.0.0.1" if host == "localhost" else host


def has_image(engine: DockerClient, image: str) -> bool:
    """Return whether the engine has the image, pulling it first if need be."""
    try:
        engine.images.get(image)
    except APIError:
        try:
            engine.images.pull(image)
        except (APIError, OSError):
            return False
    return True


def prepare_reaper(engine: DockerClient) -> str:
    """Return the image of testcontainers' Ryuk, which removes what a killed run leaves, or why it is not used."""
    if testcontainers_config.ryuk_disabled:
        return "disabled by its setting"
    if not has_image(engine, testcontainers_config.ryuk_image):
        testcontainers_config.ryuk_disabled = True
        return f"not used, {testcontainers_config.ryuk_image} can't be pulled"
    return testcontainers_config.ryuk_image


def remove_leftovers(engine: DockerClient) -> None:
    """Remove the containers, volumes and networks of this run, whatever state they are in."""
    of_this_run = {"label": f"{LABEL}={SESSION_ID}"}
    for container in engine.containers.list(all=True, filters=of_this_run):
        container.remove(force=True, v=True)
    for volume in engine.volumes.list(filters=of_this_run):
        volume.remove(force=True)
    for network in engine.networks.list(filters=of_this_run):
        network.remove()
