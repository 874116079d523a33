"""What a controller of this version does with a cluster whose state in etcd has an older format."""

from __future__ import annotations

from barnabas import __version__
from barnabas.cluster.cluster_version import FORMAT, READERS_MIN, VersionRecord
from barnabas_controller.core.state.image import ControllerImage
from barnabas_controller.core.state.writes import Write, put


def raise_format(image: ControllerImage) -> list[Write]:
    """Raise the recorded format. Coming from format 0, nothing has to be rewritten; a newer format than this version's
    stays.
    """
    if image.version is not None and image.version.format >= FORMAT:
        return []
    return [put(image.keys.version, VersionRecord(FORMAT, READERS_MIN, __version__))]
