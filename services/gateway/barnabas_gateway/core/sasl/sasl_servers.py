"""SaslServers: begins the server's side of an exchange, by mechanism, with what the mechanism needs."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable
from functools import partial

from barnabas.cluster.image import ClusterImage
from barnabas.cluster.scram import MECHANISMS_BY_NAME, ScramMechanism
from barnabas_gateway.core.model.config import SaslConfig
from barnabas_gateway.core.sasl.delegation_tokens import DelegationTokens
from barnabas_gateway.core.sasl.gssapi import BeginContext, GssapiServer
from barnabas_gateway.core.sasl.oauthbearer import OAuthBearerServer, ValidateToken
from barnabas_gateway.core.sasl.plain import PlainServer
from barnabas_gateway.core.sasl.sasl_server import GSSAPI, OAUTHBEARER, PLAIN, SaslServer
from barnabas_gateway.core.sasl.scram import NONCE_BYTES, ScramIdentity, ScramServer


class SaslServers:
    """Creates servers; SCRAM credentials and tokens are those of the image when a client begins."""

    __slots__ = ("_begin_context", "_image", "_random_bytes", "_tokens", "_validate_token")

    def __init__(
        self,
        image: ClusterImage,
        tokens: DelegationTokens,
        validate_token: ValidateToken,
        begin_context: BeginContext,
        random_bytes: Callable[[int], bytes],
    ) -> None:
        """`random_bytes` returns that many, unpredictable."""
        self._image = image
        self._tokens = tokens
        self._validate_token = validate_token
        self._begin_context = begin_context
        self._random_bytes = random_bytes

    def create_server(self, sasl: SaslConfig, mechanism: str) -> SaslServer:
        """Begin an exchange; `mechanism` is one that the listener has enabled."""
        if mechanism == PLAIN:
            return PlainServer(sasl.plain_users)
        if mechanism == OAUTHBEARER:
            assert sasl.oauth is not None, "a listener with this mechanism has it"
            return OAuthBearerServer(sasl.oauth, self._validate_token)
        if mechanism == GSSAPI:
            assert sasl.kerberos is not None, "a listener with this mechanism has it"
            # As in Kafka a session has no end without `connections.max.reauth.ms`: many clients know none.
            is_limited = sasl.reauthentication_ms_by_mechanism.get(mechanism, 0) > 0
            return GssapiServer(self._begin_context(sasl.kerberos), sasl.kerberos.rules, is_limited=is_limited)
        scram = MECHANISMS_BY_NAME[mechanism]
        nonce = b64encode(self._random_bytes(NONCE_BYTES)).decode()
        # Only clients that have authenticated learn the cluster's id.
        secret = self._image.cluster_id.encode()
        return ScramServer(scram, partial(self._find_identity, scram), nonce, secret)

    def _find_identity(self, mechanism: ScramMechanism, name: str, is_token: bool) -> ScramIdentity | None:
        if not is_token:
            found = self._image.scram_credentials.get((name, mechanism.number))
            return None if found is None else ScramIdentity(name, found.credential())
        token = self._tokens.find_valid(name)
        credential = None if token is None else token.credential(mechanism.number)
        if token is None or credential is None:
            return None
        _, _, owner = token.owner.partition(":")
        return ScramIdentity(owner, credential.credential(), token.expiry_timestamp_ms)
