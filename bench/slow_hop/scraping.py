"""Scrapes all endpoints of a cluster every second, as a Prometheus would; one that does not answer counts as down."""

from __future__ import annotations

import threading
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from bench.slow_hop.series import Scraped

INTERVAL_S: Final = 1.0
_ANSWER_S_MAX: Final = 4.0
JOB: Final = "barnabas"


class Scraping:
    """Use it as a context manager; `scraped` is whole when that is left. Times are monotonic seconds."""

    def __init__(self, targets: Mapping[str, str]) -> None:
        """`targets`: "host:port" by the name that becomes the label `instance`."""
        self.scraped = Scraped()
        self._targets = dict(targets)
        self._opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        self._stopped = threading.Event()
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Scraping:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        self._thread.join()

    def _run(self) -> None:
        with ThreadPoolExecutor(len(self._targets)) as threads:
            due_s = time.monotonic()
            while not self._stopped.wait(max(0.0, due_s - time.monotonic())):
                list(threads.map(self._scrape, self._targets.items()))
                due_s = max(due_s + INTERVAL_S, time.monotonic())

    def _scrape(self, target: tuple[str, str]) -> None:
        """The time of its samples is when the answer was whole: it tells what was so by then."""
        instance, address = target
        labels = {"instance": instance, "job": JOB}
        try:
            with self._opener.open(f"http://{address}/metrics", timeout=_ANSWER_S_MAX) as response:
                page = response.read().decode()
        except (OSError, urllib.error.URLError):
            page = ""
        at_s = time.monotonic()
        with self._lock:
            self.scraped.add("up", labels, at_s, 1.0 if page else 0.0)
            self.scraped.add_page(page, labels, at_s)
