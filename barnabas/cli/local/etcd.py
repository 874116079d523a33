"""The local cluster's etcd as the commands reach it: in the clear, or with the certificate of a secure cluster."""

from __future__ import annotations

import ssl
import urllib.request
from typing import Any

from barnabas.cli.local.layout import HOST, ClusterDirectory, ClusterLayout
from barnabas.runtime.pem_files import TlsFiles


def etcd_files(directory: ClusterDirectory) -> TlsFiles:
    """Return the files by which services and commands reach the etcd of a secure cluster."""
    certificate = str(directory.secrets_path / "etcd" / "client.pem")
    return TlsFiles(str(directory.secrets_path / "etcd" / "ca.crt"), certificate, certificate)


def local_etcd_files(directory: ClusterDirectory, layout: ClusterLayout) -> TlsFiles:
    """Return the files for this cluster's etcd; empty paths if it is reached in the clear."""
    return etcd_files(directory) if layout.secure else TlsFiles("")


def ask_etcd_over_http(directory: ClusterDirectory, layout: ClusterLayout, path: str, timeout_seconds: float) -> bytes:
    """Return what etcd's HTTP endpoints answer ("health", "version", "metrics"). Raises OSError."""
    files = local_etcd_files(directory, layout)
    handlers: list[Any] = [urllib.request.ProxyHandler({})]
    if files.authority:
        context = ssl.create_default_context(cafile=files.authority)
        context.load_cert_chain(files.certificate, files.key)
        handlers.append(urllib.request.HTTPSHandler(context=context))
    scheme = "https" if files.authority else "http"
    url = f"{scheme}://{HOST}:{layout.etcd_client_port}/{path}"
    with urllib.request.build_opener(*handlers).open(url, timeout=timeout_seconds) as response:
        content: bytes = response.read()
    return content
