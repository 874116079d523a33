"""Options of the channels to etcd's members."""

from __future__ import annotations

from typing import Final

BACKOFF_MS_MIN: Final = 50
BACKOFF_MS_MAX: Final = 1000

OPTIONS: Final[list[tuple[str, int]]] = [
    ("grpc.enable_http_proxy", 0),
    # gRPC's own default of up to 120 s would defeat any failover.
    ("grpc.initial_reconnect_backoff_ms", BACKOFF_MS_MIN),
    ("grpc.min_reconnect_backoff_ms", BACKOFF_MS_MIN),
    ("grpc.max_reconnect_backoff_ms", BACKOFF_MS_MAX),
    # A member that is a pod comes back at another address; gRPC would resolve its name again after half a minute, and
    # leases would be lost.
    ("grpc.dns_min_time_between_resolutions_ms", 500),
    # Detects a member that was cut off silently; etcd refuses pings more often than every 5 s.
    ("grpc.keepalive_time_ms", 6000),
    ("grpc.keepalive_timeout_ms", 3000),
    ("grpc.http2.max_pings_without_data", 0),
    # Probes of the bandwidth are pings and timers of a connection without traffic, several in each second of a process;
    # instead the window is as large as they would make it.
    ("grpc.http2.bdp_probe", 0),
    ("grpc.http2.lookahead_bytes", 8 << 20),
    # A snapshot of a large cluster comes in one answer; etcd limits what it accepts, not what it sends.
    ("grpc.max_receive_message_length", -1),
    # gRPC retries a call automatically if it believes that the server did not see it; deciding that is up to this
    # client.
    ("grpc.enable_retries", 0),
    ("grpc.use_local_subchannel_pool", 1),
]
