"""`python -m bench.control.logstore DESIGN RECORDING BACKLOG …`: the product's logstore with another core."""

from __future__ import annotations

import sys
from pathlib import Path

from bench.control.designs import CORES, Design, Separate
from bench.control.recording import Recording
from services.logstore.__main__ import main as serve
from services.logstore.shell import node


def main() -> None:
    design, recording, backlog = Design(sys.argv[1]), Path(sys.argv[2]), Path(sys.argv[3])
    del sys.argv[1:4]
    Separate.recording, Separate.backlog_path = Recording(recording), backlog
    # The one seam: the node makes its core by this name.
    setattr(node, "LogstoreCore", CORES[design])  # noqa: B010
    serve()


if __name__ == "__main__":
    main()
