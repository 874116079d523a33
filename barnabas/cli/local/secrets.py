"""The secrets of a local cluster that was started with `--secure`: an authority, the gateway's certificate, one user.

data/secrets/ca.key, ca.crt                  the authority; only `up` reads its key
data/secrets/gateway.pem                     the gateway's key and certificate, renewed before it expires
data/secrets/client.properties               for Kafka's own tools, and for `barnabas --config`
data/secrets/librdkafka.properties           the same for kcat and other clients on librdkafka
"""

from __future__ import annotations

import secrets
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

from barnabas.cli.local.layout import HOST, ClusterDirectory, ClusterLayout
from barnabas.client.client_security import ClientSecurity, client_security
from barnabas.client.kafka_connection import CLEAR
from barnabas.cluster.jaas import SCRAM_MODULE
from barnabas.cluster.scram import (
    ITERATIONS_MIN,
    AlterScramCredentialsRequest,
    ScramMechanism,
    UserScramCredential,
    credential_of,
    salted_password,
)
from barnabas.runtime.configuration.properties import parse_properties

USER: Final = "admin"
MECHANISM: Final = ScramMechanism.SHA_512
_AUTHORIZER: Final = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
_RENEWED_BEFORE: Final = timedelta(days=30)
_SALT_BYTES: Final = 24
_TIMEOUT_MS: Final = 5_000


def gateway_security(directory: ClusterDirectory, layout: ClusterLayout) -> dict[str, str]:
    """Return the properties by which the gateway wants TLS and a password from clients, and lets `USER` do all."""
    return {
        "listeners": f"SASL_SSL://{HOST}:{layout.kafka_port}",
        "sasl.enabled.mechanisms": MECHANISM.mechanism_name,
        "ssl.keystore.location": str(directory.secrets_path / "gateway.pem"),
        "authorizer.class.name": _AUTHORIZER,
        "super.users": f"User:{USER}",
    }


def ensure_secrets(directory: ClusterDirectory, layout: ClusterLayout) -> None:
    """Create what is missing, and renew a certificate that ends soon. Raises OSError, ValueError."""
    # It takes a tenth of a second to import, and most clusters need none of it.
    from barnabas.cli.local.certificates import (
        create_authority,
        expires,
        issue,
        read_authority,
        write_authority,
        write_secret,
    )

    now, path = datetime.fromtimestamp(time.time(), UTC), directory.secrets_path
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    if not (path / "ca.key").exists():
        write_authority(path, create_authority("Barnabas local cluster", now))
    certificate = path / "gateway.pem"
    if not certificate.exists() or expires(certificate.read_bytes()) - now < _RENEWED_BEFORE:
        write_secret(certificate, issue(read_authority(path), "gateway", (HOST, "localhost"), now))
    if not directory.client_properties_path.exists():
        password = secrets.token_urlsafe(18)
        for name, lines in _client_properties(path / "ca.crt", layout, password).items():
            write_secret(path / name, "".join(f"{line}\n" for line in lines).encode())


def _client_properties(authority: Path, layout: ClusterLayout, password: str) -> dict[str, list[str]]:
    common = [
        f"bootstrap.servers={HOST}:{layout.kafka_port}",
        "security.protocol=SASL_SSL",
        f"sasl.mechanism={MECHANISM.mechanism_name}",
    ]
    jaas = f'{SCRAM_MODULE} required username="{USER}" password="{password}";'
    return {
        "librdkafka.properties": [
            *common,
            f"sasl.username={USER}",
            f"sasl.password={password}",
            f"ssl.ca.location={authority}",
        ],
        "client.properties": [
            *common,
            f"sasl.jaas.config={jaas}",
            "ssl.truststore.type=PEM",
            f"ssl.truststore.location={authority}",
        ],
    }


def local_security(directory: ClusterDirectory, layout: ClusterLayout) -> ClientSecurity:
    """Return how this user's commands connect to the local cluster. Raises OSError, ValueError."""
    if not layout.secure:
        return CLEAR
    return client_security(parse_properties(directory.client_properties_path.read_text()))


def create_user(directory: ClusterDirectory, layout: ClusterLayout) -> str | None:
    """Have the controller keep the credential of `USER`. Return why it does not yet; None if it does."""
    import grpc

    from barnabas.runtime.protobuf import to_proto
    from barnabas_protos.controller.v1 import membership_pb2 as pb
    from barnabas_protos.controller.v1.membership_pb2_grpc import MembershipStub

    salt = secrets.token_bytes(_SALT_BYTES)
    salted = salted_password(MECHANISM, local_security(directory, layout).password, salt, ITERATIONS_MIN)
    keys = credential_of(MECHANISM, salted, salt, ITERATIONS_MIN)
    credential = UserScramCredential(USER, MECHANISM.number, ITERATIONS_MIN, salt, keys.stored_key, keys.server_key)
    request = to_proto(AlterScramCredentialsRequest([], [credential], _TIMEOUT_MS), pb.AlterScramCredentialsRequest)
    options = [("grpc.enable_http_proxy", 0)]
    with grpc.insecure_channel(f"{HOST}:{layout.controller_port}", options) as channel:
        try:
            answer = MembershipStub(channel).AlterScramCredentials(request, timeout=2 * _TIMEOUT_MS / 1000)
        except grpc.RpcError as error:
            details = getattr(error, "details", None)
            return f"the controller does not take a user yet: {error if details is None else details()}"
    result = answer.results[0]
    return f"the controller does not take a user: {result.error_message}" if result.error_code else None
