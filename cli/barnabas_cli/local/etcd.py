"""The local cluster's etcd as the commands reach it: in the clear, or with the certificate of a secure cluster."""

from __future__ import annotations

import asyncio
import ssl
import urllib.request
from pathlib import Path
from typing import Any, Final

from barnabas.ports.etcd import EtcdRefused
from barnabas.runtime.clock import monotonic_ms
from barnabas.runtime.pem_files import TlsFiles
from barnabas_cli.local.layout import HOST, ClusterDirectory, ClusterLayout, members_of

ETCD_ADMINISTRATOR: Final = "barnabas"
"""The user of etcd that commands are, by the common name of their certificate."""


def etcd_files(directory: ClusterDirectory, name: str = "client") -> TlsFiles:
    """Return the files by which the service of that name, or a command, reaches the etcd of a secure cluster."""
    certificate = str(directory.secrets_path / "etcd" / f"{name}.pem")
    return TlsFiles(str(directory.secrets_path / "etcd" / "ca.crt"), certificate, certificate)


def root_password_path(directory: ClusterDirectory) -> Path:
    """Return the file with the password of etcd's root, which is there once its users may have been limited."""
    return directory.secrets_path / "etcd" / "root.password"


def limit_etcd_users(directory: ClusterDirectory, layout: ClusterLayout) -> str | None:
    """Have each service do in etcd what it needs. Return why that is not possible yet; None if it is done."""
    from barnabas.cluster.keys import Keys
    from barnabas.runtime.etcd import EtcdClient, EtcdUnavailable
    from barnabas.runtime.etcd.users import MemberUser, limit_users

    async def limit() -> str | None:
        etcd = EtcdClient((_endpoint(layout),), monotonic_ms, etcd_files(directory))
        users = [MemberUser(name, role, member_id) for name, role, member_id in members_of(layout)]
        try:
            await limit_users(etcd, Keys(), users, ETCD_ADMINISTRATOR, root_password_path(directory).read_text())
        except EtcdUnavailable as error:
            return str(error)
        except EtcdRefused as error:
            return f"etcd takes no users: {error}"
        finally:
            await etcd.close()
        return None

    return asyncio.run(limit())


def end_etcd_limits(directory: ClusterDirectory, layout: ClusterLayout) -> str | None:
    """Have everyone do everything in etcd, which has no TLS any more. Return why that is not possible yet."""
    from barnabas.runtime.etcd import EtcdClient, EtcdUnavailable
    from barnabas.runtime.etcd.authentication import EtcdUser
    from barnabas.runtime.etcd.users import ROOT, let_all_in

    async def end() -> str | None:
        user = EtcdUser(ROOT, root_password_path(directory).read_text())
        etcd = EtcdClient((_endpoint(layout),), monotonic_ms, user=user)
        try:
            await let_all_in(etcd)
        except EtcdUnavailable as error:
            return str(error)
        except EtcdRefused as error:
            # Its data are of a cluster that never had users, or they have been made again since.
            return None if "not enabled" in str(error) else f"etcd keeps its users: {error}"
        finally:
            await etcd.close()
        return None

    why = asyncio.run(end())
    if why is None:
        root_password_path(directory).unlink()
    return why


def _endpoint(layout: ClusterLayout) -> str:
    return f"{HOST}:{layout.etcd_client_port}"


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
