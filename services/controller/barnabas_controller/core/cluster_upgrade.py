"""What a controller of this version makes of a cluster whose state in etcd is in an older format."""

from __future__ import annotations

from barnabas import __version__
from barnabas.cluster.cluster_version import FORMAT, READERS_MIN, VersionRecord
from barnabas_controller.core.image import ControllerImage
from barnabas_controller.core.writes import Write, put


def raise_format(image: ControllerImage) -> list[Write]:
    """Nothing has to be rewritten to come from format 0, only to be said; what is newer than ours stays as it is."""
    if image.version is not None and image.version.format >= FORMAT:
        return []
    return [put(image.keys.version, VersionRecord(FORMAT, READERS_MIN, __version__))]
