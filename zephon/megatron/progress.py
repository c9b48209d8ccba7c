"""Log lines that show that a long build is alive."""

from __future__ import annotations

import logging
import threading
import time


class ProgressLog:
    """Logs every few seconds what is being done, from a thread of its own.

    A context manager. Short work logs nothing: the first line comes after
    ``every`` seconds.

    Parameters
    ----------
    logger : logging.Logger
    what : str
        What is being built.
    every : float
        Seconds between two lines.
    """

    def __init__(self, logger: logging.Logger, what: str, every: float = 5.0) -> None:
        self._logger = logger
        self._what = what
        self._every = every
        self._step = ""
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="zephon-progress", daemon=True)

    def __enter__(self) -> ProgressLog:
        self._began = time.monotonic()
        self._thread.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._done.set()
        self._thread.join()
        self._seconds = time.monotonic() - self._began

    @property
    def seconds(self) -> float:
        """How long the work took."""
        return self._seconds

    def doing(self, step: str) -> None:
        """Say what is being done from now on."""
        self._step = step

    def _watch(self) -> None:
        while not self._done.wait(self._every):
            seconds = time.monotonic() - self._began
            self._logger.info("building %s: %s, %.0f s so far", self._what, self._step, seconds)
