"""Files of the supervisor in a cluster's directory of pid files."""

PID_FILE = "supervisor.pid"
LOCK = "supervisor.lock"
SOCKET = "supervisor.sock"
EVENTS = "restarts.jsonl"
