"""Memory that two processes of one host have mapped; its descriptor is handed over with a lane.

Its size is sealed, so that neither end can take pages from under the other one. Pages exist once they are written.
"""

from __future__ import annotations

import fcntl
import mmap
import os
from typing import Final

from barnabas.runtime.lane import Descriptor

_SEALS: Final = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL
BYTES_MAX: Final = 1 << 30
"""Of memory that a peer hands over: address space, not pages."""


def create(byte_count: int) -> tuple[Descriptor, memoryview]:
    """Return memory of zeros. Raises OSError."""
    descriptor = Descriptor(os.memfd_create("barnabas-lane", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING))
    os.ftruncate(descriptor.fileno(), byte_count)
    fcntl.fcntl(descriptor.fileno(), fcntl.F_ADD_SEALS, _SEALS)
    return descriptor, memoryview(mmap.mmap(descriptor.fileno(), byte_count))


def attach(descriptor: Descriptor) -> memoryview:
    """Map what a peer has created. Raises OSError, also for anything that is not such memory."""
    if fcntl.fcntl(descriptor.fileno(), fcntl.F_GET_SEALS) & _SEALS != _SEALS:
        raise OSError("the memory is not sealed")
    byte_count = os.fstat(descriptor.fileno()).st_size
    if not 0 < byte_count <= BYTES_MAX:
        raise OSError(f"a memory of {byte_count} bytes")
    return memoryview(mmap.mmap(descriptor.fileno(), byte_count))
