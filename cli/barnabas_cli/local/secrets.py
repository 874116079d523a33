"""The secrets of a local cluster that was started with `--secure`: an authority, certificates, one user.

data/secrets/ca.key, ca.crt                  the authority; only `up` reads its key
data/secrets/gateway.pem                     the gateway's key and certificate for clients, renewed before it expires
data/secrets/inside/<service>.pem            those of each service for the others, which name its role and its id
data/secrets/etcd/ca.key, ca.crt             an authority for etcd alone
data/secrets/etcd/etcd.pem, client.pem       etcd's certificate, and the one of commands, which may do everything there
data/secrets/etcd/<service>.pem              those of the services, which may do what they need
data/secrets/etcd/root.password              for `--no-secure`, which ends these limits
data/secrets/operations.pem                  that of the operators' port
data/secrets/health.pem                      that of the gateway's port for probes, which need a certificate too
data/secrets/gateway.properties              its password of PLAIN, and `delegation.token.secret.key`: with another all
                                             tokens end
data/secrets/metrics.pem, scraper.pem        those of the metrics endpoints, and of a Prometheus that scrapes them
data/secrets/prometheus.yml                  its configuration
data/secrets/operators/<role>.pem            certificates of a viewer, an operator and an admin
data/secrets/operators/<role>.properties     for `barnabas --operator-config`
data/secrets/client.properties               for Kafka's own tools, and for `barnabas --config`
data/secrets/librdkafka.properties           for kcat and others on librdkafka; before 2.6.1 it fails with SCRAM, at
                                             Kafka too: the file says how to use PLAIN instead
"""

from __future__ import annotations

import json
import secrets
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

from barnabas.client.client_security import ClientSecurity, client_security
from barnabas.client.kafka_connection import CLEAR
from barnabas.cluster.access.service_permissions import DEFAULT_DOMAIN, member_uri
from barnabas.cluster.jaas import PLAIN_MODULE, SCRAM_MODULE
from barnabas.cluster.keys import Role
from barnabas.cluster.scram import (
    ITERATIONS_MIN,
    AlterScramCredentialsRequest,
    ScramMechanism,
    UserScramCredential,
    credential_of,
    salted_password,
)
from barnabas.runtime.configuration.properties import parse_properties
from barnabas.runtime.pem_files import TlsFiles
from barnabas_cli.local.etcd import ETCD_ADMINISTRATOR, etcd_files, root_password_path
from barnabas_cli.local.layout import HOST, ClusterDirectory, ClusterLayout, members_of
from barnabas_cli.operator_access import OperatorAccess, read_access

USER: Final = "admin"
MECHANISM: Final = ScramMechanism.SHA_512
_PLAIN: Final = "PLAIN"
OPERATORS: Final = ("viewer", "operator", "admin")
_LOCALHOST: Final = (HOST, "localhost")
_CERTIFICATES: Final[dict[str, tuple[str, tuple[str, ...]]]] = {
    "gateway": ("gateway", _LOCALHOST),
    "operations": ("operations", _LOCALHOST),
    "metrics": ("metrics", _LOCALHOST),
    "health": ("health", _LOCALHOST),
    "scraper": ("scraper", ()),
    **{f"operators/{role}": (role, ()) for role in OPERATORS},
}
"""By file: common name and alternative names."""
_OF_ALL_LOGSTORES: Final = "inside/logstore.pem"
"""What an earlier `up` has left: the key of any logstore."""
_ETCD_CERTIFICATES: Final[dict[str, tuple[str, tuple[str, ...]]]] = {
    "etcd": ("etcd", _LOCALHOST),
    "client": (ETCD_ADMINISTRATOR, ()),
}
_AUTHORIZER: Final = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
_RENEWED_BEFORE: Final = timedelta(days=30)
_SALT_BYTES: Final = 24
_TOKEN_KEY_BYTES: Final = 32
_ETCD_PASSWORD_BYTES: Final = 24
_TIMEOUT_MS: Final = 5_000


def gateway_security(directory: ClusterDirectory, layout: ClusterLayout) -> dict[str, str]:
    """Return the properties by which the gateway wants TLS and a password from clients, and lets `USER` do all."""
    return {
        "listeners": f"SASL_SSL://{HOST}:{layout.kafka_port}",
        "sasl.enabled.mechanisms": f"{MECHANISM.mechanism_name},{_PLAIN}",
        "ssl.keystore.location": str(directory.secrets_path / "gateway.pem"),
        "authorizer.class.name": _AUTHORIZER,
        "super.users": f"User:{USER}",
        "health.tls.authority": str(directory.secrets_path / "ca.crt"),
        "health.tls.certificate": str(directory.secrets_path / "health.pem"),
        "health.tls.key": str(directory.secrets_path / "health.pem"),
    }


def gateway_secrets_path(directory: ClusterDirectory) -> Path:
    """Return the file with the properties of the gateway that no other user may read."""
    return directory.secrets_path / "gateway.properties"


def _gateway_secrets(directory: ClusterDirectory) -> dict[str, str]:
    password = parse_properties((directory.secrets_path / "librdkafka.properties").read_text())["sasl.password"]
    return {
        "delegation.token.secret.key": secrets.token_urlsafe(_TOKEN_KEY_BYTES),
        "listener.name.sasl_ssl.plain.sasl.jaas.config": f'{PLAIN_MODULE} required user_{USER}="{password}";',
    }


def _certificates_inside(layout: ClusterLayout) -> dict[str, tuple[str, tuple[str, ...]]]:
    return {
        f"inside/{name}": (name, (f"{role.value}.{DEFAULT_DOMAIN}", member_uri(DEFAULT_DOMAIN, role, member_id)))
        for name, role, member_id in members_of(layout)
    }


def _certificates_of_etcd(layout: ClusterLayout) -> dict[str, tuple[str, tuple[str, ...]]]:
    return _ETCD_CERTIFICATES | {name: (name, ()) for name, _, _ in members_of(layout)}


def ensure_secrets(directory: ClusterDirectory, layout: ClusterLayout) -> None:
    """Create what is missing, and renew a certificate that ends soon. Raises OSError, ValueError."""
    # It takes a tenth of a second to import, and most clusters need none of it.
    from barnabas_cli.local.certificates import (
        create_authority,
        expires,
        issue,
        names,
        read_authority,
        write_authority,
        write_secret,
    )

    now, path = datetime.fromtimestamp(time.time(), UTC), directory.secrets_path
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    for authority_path, certificates in (
        (path, _CERTIFICATES | _certificates_inside(layout)),
        (path / "etcd", _certificates_of_etcd(layout)),
    ):
        if not (authority_path / "ca.key").exists():
            write_authority(authority_path, create_authority(f"Barnabas local {authority_path.name}", now))
        authority = read_authority(authority_path)
        for name, (common_name, hosts) in certificates.items():
            certificate = authority_path / f"{name}.pem"
            held = certificate.read_bytes() if certificate.exists() else b""
            if not held or expires(held) - now < _RENEWED_BEFORE or names(held) != hosts:
                write_secret(certificate, issue(authority, common_name, hosts, now))
    (path / _OF_ALL_LOGSTORES).unlink(missing_ok=True)
    for role in OPERATORS:
        operator_lines = "".join(f"{key}={value}\n" for key, value in _operator_properties(path, layout, role).items())
        write_secret(path / "operators" / f"{role}.properties", operator_lines.encode())
    write_secret(path / "prometheus.yml", _prometheus_configuration(path, layout).encode())
    if not directory.client_properties_path.exists():
        password = secrets.token_urlsafe(18)
        for name, lines in _client_properties(path / "ca.crt", layout, password).items():
            write_secret(path / name, "".join(f"{line}\n" for line in lines).encode())
    if not root_password_path(directory).exists():
        write_secret(root_password_path(directory), secrets.token_urlsafe(_ETCD_PASSWORD_BYTES).encode())
    if not gateway_secrets_path(directory).exists():
        given = "".join(f"{key}={value}\n" for key, value in _gateway_secrets(directory).items())
        write_secret(gateway_secrets_path(directory), given.encode())


def inside_security(directory: ClusterDirectory, name: str) -> dict[str, str]:
    """Return the properties of the service of that name for the other services, for scrapers, and for etcd."""
    path, etcd = directory.secrets_path, etcd_files(directory, name)
    return {
        "inter.service.tls.authority": str(path / "ca.crt"),
        "inter.service.tls.certificate": str(path / "inside" / f"{name}.pem"),
        "inter.service.tls.key": str(path / "inside" / f"{name}.pem"),
        "metrics.tls.authority": str(path / "ca.crt"),
        "metrics.tls.certificate": str(path / "metrics.pem"),
        "metrics.tls.key": str(path / "metrics.pem"),
        "etcd.tls.authority": etcd.authority,
        "etcd.tls.certificate": etcd.certificate,
        "etcd.tls.key": etcd.key,
    }


def _prometheus_configuration(path: Path, layout: ClusterLayout) -> str:
    """Return a configuration that scrapes all services; JSON is YAML."""
    ports = (
        layout.controller_metrics_port,
        layout.purgatory_metrics_port,
        layout.gateway_metrics_port,
        *(layout.logstore_metrics_port(logstore_id) for logstore_id in layout.logstore_ids),
    )
    scraper = str(path / "scraper.pem")
    job = {
        "job_name": "barnabas",
        "scheme": "https",
        "tls_config": {"ca_file": str(path / "ca.crt"), "cert_file": scraper, "key_file": scraper},
        "static_configs": [{"targets": [f"{HOST}:{port}" for port in ports]}],
    }
    return json.dumps({"scrape_configs": [job]}, indent=1) + "\n"


def operations_security(directory: ClusterDirectory) -> dict[str, str]:
    """Return the properties by which the controller wants a certificate from operators."""
    path = directory.secrets_path
    return {
        "operations.tls.authority": str(path / "ca.crt"),
        "operations.tls.certificate": str(path / "operations.pem"),
        "operations.tls.key": str(path / "operations.pem"),
    }


def _operator_properties(path: Path, layout: ClusterLayout, role: str) -> dict[str, str]:
    return {
        "address": f"{HOST}:{layout.operations_port}",
        "tls.authority": str(path / "ca.crt"),
        "tls.certificate": str(path / "operators" / f"{role}.pem"),
        "tls.key": str(path / "operators" / f"{role}.pem"),
    }


def local_access(directory: ClusterDirectory, layout: ClusterLayout) -> OperatorAccess:
    """Return how this user's commands reach the operators' API of the local cluster. Raises AccessError."""
    if not layout.secure:
        return OperatorAccess(f"{HOST}:{layout.operations_port}")
    return read_access(directory.secrets_path / "operators" / "admin.properties")


def _client_properties(authority: Path, layout: ClusterLayout, password: str) -> dict[str, list[str]]:
    common = [
        f"bootstrap.servers={HOST}:{layout.kafka_port}",
        "security.protocol=SASL_SSL",
    ]
    jaas = f'{SCRAM_MODULE} required username="{USER}" password="{password}";'
    return {
        "librdkafka.properties": [
            *common,
            f"# librdkafka before 2.6.1, such as Debian's kcat, fails with SCRAM: -X sasl.mechanism={_PLAIN}",
            f"sasl.mechanism={MECHANISM.mechanism_name}",
            f"sasl.username={USER}",
            f"sasl.password={password}",
            f"ssl.ca.location={authority}",
        ],
        "client.properties": [
            *common,
            f"sasl.mechanism={MECHANISM.mechanism_name}",
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


def _inside_files(directory: ClusterDirectory, name: str) -> TlsFiles:
    path = directory.secrets_path
    own = str(path / "inside" / f"{name}.pem")
    return TlsFiles(str(path / "ca.crt"), own, own)


def create_user(directory: ClusterDirectory, layout: ClusterLayout) -> str | None:
    """Have the controller keep the credential of `USER`. Return why it does not yet; None if it does."""
    import grpc

    from barnabas.runtime.inter_service.identity import ServiceIdentity
    from barnabas.runtime.protobuf import to_proto
    from barnabas_protos.controller.v1 import membership_pb2 as pb
    from barnabas_protos.controller.v1.membership_pb2_grpc import MembershipStub

    salt = secrets.token_bytes(_SALT_BYTES)
    salted = salted_password(MECHANISM, local_security(directory, layout).password, salt, ITERATIONS_MIN)
    keys = credential_of(MECHANISM, salted, salt, ITERATIONS_MIN)
    credential = UserScramCredential(USER, MECHANISM.number, ITERATIONS_MIN, salt, keys.stored_key, keys.server_key)
    request = to_proto(AlterScramCredentialsRequest([], [credential], _TIMEOUT_MS), pb.AlterScramCredentialsRequest)
    # Membership is for services: this command, which has the authority's key, speaks as the gateway does.
    identity = ServiceIdentity(_inside_files(directory, "gateway"), DEFAULT_DOMAIN)
    options = [("grpc.enable_http_proxy", 0), *identity.channel_options(Role.CONTROLLER)]
    address = f"{HOST}:{layout.membership_port}"
    with grpc.secure_channel(address, identity.channel_credentials(), options) as channel:
        try:
            answer = MembershipStub(channel).AlterScramCredentials(request, timeout=2 * _TIMEOUT_MS / 1000)
        except grpc.RpcError as error:
            details = getattr(error, "details", None)
            return f"the controller does not take a user yet: {error if details is None else details()}"
    result = answer.results[0]
    return f"the controller does not take a user: {result.error_message}" if result.error_code else None
