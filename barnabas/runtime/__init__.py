"""The only generic I/O of Barnabas: clock, processes, RPC, streams, etcd, configuration, logs."""

import os

# gRPC's core writes lines of its own to standard error, between our JSON lines; what matters in them reaches us as
# errors. It reads this variable once, when grpc is first imported.
os.environ.setdefault("GRPC_VERBOSITY", "NONE")

WITHOUT_EVENT_ENGINE = "-event_engine_client,-event_engine_listener,-event_engine_callback_cq"
"""Experiments of gRPC that are switched off: without its event engine the thread that waits for a message also reads it
from the socket, and a message between two hosts costs four switches between threads at each end instead of seven.
"""
os.environ.setdefault("GRPC_EXPERIMENTS", WITHOUT_EVENT_ENGINE)
