"""Supervise a cluster: `python -I -S barnabas/supervisor/__main__.py RUN_DIRECTORY`.

Isolated and without site-packages, the interpreter starts in a third of the time. The package `barnabas` selects cores
when it is imported, for which it loads what would double the memory of this process; so it is declared here instead.
"""

from __future__ import annotations

import os
import sys


def main() -> None:
    from barnabas.supervisor.supervisor import AlreadySupervised, Supervisor

    try:
        supervisor = Supervisor(sys.argv[1])
    except AlreadySupervised:
        sys.exit(0)
    supervisor.serve()


if __name__ == "__main__":
    package = type(sys)("barnabas")
    package.__path__ = [os.path.dirname(os.path.dirname(os.path.abspath(__file__)))]
    sys.modules["barnabas"] = package
    main()
