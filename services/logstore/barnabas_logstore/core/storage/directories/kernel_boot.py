"""The boot of the kernel under which a log directory was used last, and what it says about the records there.

`kernel-boot-id` exists as long as no records are missing, and no flush has failed.
"""

from __future__ import annotations

from barnabas.ports.disk import Disk
from barnabas_logstore.core.storage import checkpoints
from barnabas_logstore.core.storage.effects import FileReplacement, ReplaceEffect


class KernelBoot:
    def __init__(self, disk: Disk, directory: str) -> None:
        self._disk = disk
        self._path = f"{directory}/{checkpoints.KERNEL_BOOT_ID}"
        self._id = b""
        self.is_page_cache_in_doubt = False
        """A flush has failed, perhaps: what is read need not be on the disk, though it will not be written again."""
        self.may_lack_records = False
        """Under another boot than last time what a killed process had written and not flushed may be lost. Every
        start reports it, to the operator and the controller, until the latter has made sure that no ISR relies on it
        (`trust`).
        """

    def read(self, kernel_boot_id: bytes, *, was_shut_down_cleanly: bool) -> None:
        """Compare with the present boot. A process that starts after a power cut may be killed, or stopped cleanly,
        before the controller has learned of it: the next one has to report it again. Raises DiskError.
        """
        self._id = kernel_boot_id
        before = self._disk.read_file(self._path) if self._disk.exists(self._path) else b""
        page_cache_survived = before == kernel_boot_id
        self.is_page_cache_in_doubt = not before
        self.may_lack_records = not page_cache_survived and not (was_shut_down_cleanly and before)
        if self.may_lack_records:
            self.forget()
        elif not page_cache_survived:
            self._disk.replace_file(self._path, kernel_boot_id)

    def expect_losses(self) -> None:
        """Have this start, and those after it, report that records may be missing. Raises DiskError."""
        self.may_lack_records = True
        self.forget()

    def forget(self) -> None:
        if self._disk.exists(self._path):
            self._disk.remove(self._path)

    def trust(self) -> ReplaceEffect:
        """The controller knows what may be missing: a start in the same boot need not report it again."""
        self.may_lack_records = False
        return ReplaceEffect(FileReplacement(self._path, self._id))
