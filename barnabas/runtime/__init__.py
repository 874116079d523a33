"""The only generic I/O of Barnabas: clock, processes, RPC, streams, etcd, configuration, logs."""

import os

# gRPC's core writes lines of its own to standard error, between our JSON lines; what matters in them reaches us as
# errors. It reads this variable once, when grpc is first imported.
os.environ.setdefault("GRPC_VERBOSITY", "NONE")
