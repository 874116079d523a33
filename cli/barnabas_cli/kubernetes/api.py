"""A client of the Kubernetes API for a pod with a service account: Secrets and ConfigMaps of its namespace."""

from __future__ import annotations

import http.client
import os
import ssl
from base64 import b64decode, b64encode
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Protocol

import msgspec

MANAGED_BY: Final = "app.kubernetes.io/managed-by"
OURS: Final = "barnabas"
"""The value of that label on objects that these jobs create; they never replace one without it."""
_ACCOUNT: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")
_TIMEOUT_S: Final = 20.0
_ANSWER_BYTES_MAX: Final = 4 << 20


class KubernetesError(Exception):
    """The API can't be reached, or refuses. The message is one line."""


@dataclass(slots=True, frozen=True)
class Stored:
    """A Secret or a ConfigMap: its data, and what a replacement has to name."""

    data: dict[str, bytes] = field(repr=False)
    version: str
    is_ours: bool


class Objects(Protocol):
    """Where Secrets and ConfigMaps are kept."""

    def read(self, kind: str, name: str) -> Stored | None:
        """Return the object; None if there is none. `kind` is "secrets" or "configmaps". Raises KubernetesError."""

    def write(
        self, kind: str, name: str, data: Mapping[str, bytes], labels: Mapping[str, str], present: Stored | None
    ) -> None:
        """Create it, or replace `present`. Raises KubernetesError, also if it has changed since it was read."""


class KubernetesApi:
    """The objects of one namespace."""

    __slots__ = ("_address", "_context", "_namespace", "_token_path")

    def __init__(self, address: tuple[str, int], account: Path = _ACCOUNT) -> None:
        """`account` has the files of a service account: `ca.crt`, `namespace`, `token`. Raises KubernetesError."""
        try:
            self._namespace = (account / "namespace").read_text().strip()
            self._context = ssl.create_default_context(cafile=str(account / "ca.crt"))
        except OSError as error:
            raise KubernetesError(f"no service account of Kubernetes in {account}: {error.strerror}") from None
        self._address = address
        self._token_path = account / "token"

    def read(self, kind: str, name: str) -> Stored | None:
        status, answer = self._call("GET", f"{kind}/{name}")
        if status == http.client.NOT_FOUND:
            return None
        _check(status, answer, f"get {kind} {name}")
        data = answer.get("data") or {}
        metadata = answer["metadata"]
        texts = {key: text.encode() if kind == "configmaps" else b64decode(text) for key, text in data.items()}
        return Stored(texts, metadata["resourceVersion"], metadata.get("labels", {}).get(MANAGED_BY) == OURS)

    def write(
        self, kind: str, name: str, data: Mapping[str, bytes], labels: Mapping[str, str], present: Stored | None
    ) -> None:
        if present is not None and not present.is_ours:
            raise KubernetesError(f"{kind} {name} was not created by Barnabas, and is not replaced")
        metadata: dict[str, Any] = {"name": name, "labels": {**labels, MANAGED_BY: OURS}}
        if present is not None:
            metadata["resourceVersion"] = present.version
        is_text = kind == "configmaps"
        body = {
            "apiVersion": "v1",
            "kind": "ConfigMap" if is_text else "Secret",
            "metadata": metadata,
            "data": {key: text.decode() if is_text else b64encode(text).decode() for key, text in data.items()},
        }
        verb, path = ("POST", kind) if present is None else ("PUT", f"{kind}/{name}")
        status, answer = self._call(verb, path, msgspec.json.encode(body))
        _check(status, answer, f"write {kind} {name}")

    def _call(self, verb: str, path: str, body: bytes | None = None) -> tuple[int, dict[str, Any]]:
        """Raises KubernetesError."""
        connection = http.client.HTTPSConnection(*self._address, timeout=_TIMEOUT_S, context=self._context)
        try:
            # A token is replaced while the pod runs.
            headers = {"Authorization": f"Bearer {self._token_path.read_text().strip()}", "Accept": "application/json"}
            if body is not None:
                headers["Content-Type"] = "application/json"
            connection.request(verb, f"/api/v1/namespaces/{self._namespace}/{path}", body, headers)
            response = connection.getresponse()
            text = response.read(_ANSWER_BYTES_MAX)
            answer = msgspec.json.decode(text, type=dict[str, Any])
        except (OSError, http.client.HTTPException, msgspec.DecodeError) as error:
            host, port = self._address
            raise KubernetesError(f"the Kubernetes API at {host}:{port}: {error}") from None
        finally:
            connection.close()
        return response.status, answer


def api_of_this_pod(environment: Mapping[str, str] = os.environ) -> KubernetesApi:
    """Return the API of the cluster that this process is a pod of. Raises KubernetesError."""
    host, port = environment.get("KUBERNETES_SERVICE_HOST", ""), environment.get("KUBERNETES_SERVICE_PORT", "443")
    if not host or not port.isdecimal():
        raise KubernetesError("KUBERNETES_SERVICE_HOST is not set: this command is for a pod of Kubernetes")
    return KubernetesApi((host, int(port)))


def _check(status: int, answer: Mapping[str, Any], what: str) -> None:
    """Raises KubernetesError."""
    if status not in (http.client.OK, http.client.CREATED):
        raise KubernetesError(f"{what}: {status} {answer.get('message', '')}".strip())
