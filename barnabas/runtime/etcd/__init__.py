"""A thin etcd client over grpc.aio: transactions that are never retried blindly, watches that resume, honest leases."""

from __future__ import annotations

from barnabas.runtime.etcd.client import EtcdClient
from barnabas.runtime.etcd.config import EtcdConfig
from barnabas.runtime.etcd.connection import EtcdUnavailable
from barnabas.runtime.etcd.lease import Lease

__all__ = ["EtcdClient", "EtcdConfig", "EtcdUnavailable", "Lease"]
