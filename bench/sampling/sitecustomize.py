"""Samples every Python process that is started with BARNABAS_SAMPLES=DIRECTORY and this folder on PYTHONPATH.

A timer of CPU time interrupts the process, and the function that its main thread is in is counted. Every few samples
the counts are written to DIRECTORY/<pid>.json; they need not be requested, and a killed process has left its own.
"""

import json
import os
import signal
from types import FrameType

SAMPLE_SECONDS = 0.001
WRITE_EVERY = 20


def _start(directory: str) -> None:
    counts: dict[str, int] = {}
    path = os.path.join(directory, f"{os.getpid()}.json")
    seen = 0
    is_writing = False

    def on_timer(_number: int, frame: FrameType | None) -> None:
        nonlocal seen, is_writing
        if frame is None or is_writing:
            # On a busy machine the timer fires again while the counts are being written.
            return
        code = frame.f_code
        name = f"{code.co_filename}:{code.co_qualname}"
        counts[name] = counts.get(name, 0) + 1
        seen += 1
        if seen % WRITE_EVERY == 0:
            is_writing = True
            with open(path + ".tmp", "w") as file:
                json.dump(counts, file)
            os.replace(path + ".tmp", path)
            is_writing = False

    signal.signal(signal.SIGPROF, on_timer)
    # Interrupted system calls go on, rather than fail with EINTR in C code that does not know of samples.
    signal.siginterrupt(signal.SIGPROF, False)
    signal.setitimer(signal.ITIMER_PROF, SAMPLE_SECONDS, SAMPLE_SECONDS)


if os.environ.get("BARNABAS_SAMPLES"):
    _start(os.environ["BARNABAS_SAMPLES"])
    # A forked process has no timer of its own, and writes to another file.
    os.register_at_fork(after_in_child=lambda: _start(os.environ["BARNABAS_SAMPLES"]))
