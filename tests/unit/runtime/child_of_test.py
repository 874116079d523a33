"""A child process for the tests of barnabas.runtime.processes.spawning: does what its parent's messages say."""

from __future__ import annotations

import asyncio
import os
import signal
import sys

from barnabas.runtime.processes.spawning import parent_socket, run_until_signal


async def serve(stopping: asyncio.Event) -> None:
    def on_message(kind: bytes, payload: bytes, fds: list[int]) -> None:
        match kind:
            case b"echo":
                messages.send(b"echo", payload, fds)
            case b"write":
                for fd in fds:
                    os.write(fd, payload)
            case b"exit":
                os._exit(int(payload))
            case b"say 20 and exit":
                for number in range(20):
                    messages.send(b"last words", b"%d" % number, [0])
                os._exit(0)
            case b"hang":
                signal.signal(signal.SIGTERM, signal.SIG_IGN)
                messages.send(b"hanging")
        for fd in fds:
            os.close(fd)

    messages = parent_socket(on_message, stopping.set)
    messages.send(b"ready", f"{os.getpid()} {' '.join(sys.argv[1:])}".encode())
    await stopping.wait()
    messages.close()


def main() -> None:
    run_until_signal(serve)


if __name__ == "__main__":
    main()
