"""SaslServers: begins the server's side of an exchange, by mechanism, with what the mechanism needs."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable
from functools import partial

from barnabas.cluster.image import ClusterImage
from barnabas.cluster.scram import MECHANISMS_BY_NAME, ScramCredential, ScramMechanism
from barnabas_gateway.core.model.config import SaslConfig
from barnabas_gateway.core.sasl.plain import PlainServer
from barnabas_gateway.core.sasl.sasl_server import PLAIN, SaslServer
from barnabas_gateway.core.sasl.scram import NONCE_BYTES, ScramServer


class SaslServers:
    """Creates servers; SCRAM credentials are those of the image when a client begins."""

    __slots__ = ("_image", "_random_bytes")

    def __init__(self, image: ClusterImage, random_bytes: Callable[[int], bytes]) -> None:
        """`random_bytes` returns that many, unpredictable."""
        self._image = image
        self._random_bytes = random_bytes

    def create_server(self, sasl: SaslConfig, mechanism: str) -> SaslServer:
        """Begin an exchange; `mechanism` is one that the listener has enabled."""
        if mechanism == PLAIN:
            return PlainServer(sasl.plain_users)
        scram = MECHANISMS_BY_NAME[mechanism]
        nonce = b64encode(self._random_bytes(NONCE_BYTES)).decode()
        # Only clients that have authenticated learn the cluster's id.
        secret = self._image.cluster_id.encode()
        return ScramServer(scram, partial(self._find_credential, scram), nonce, secret)

    def _find_credential(self, mechanism: ScramMechanism, user: str) -> ScramCredential | None:
        found = self._image.scram_credentials.get((user, mechanism.number))
        return None if found is None else found.credential()
