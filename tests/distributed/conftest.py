"""Ranks as real processes, see zygote.py."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

LIMIT = 90.0
"""Seconds after which a run that has not ended has failed its test."""


class Zygote:
    """The process that forks ranks."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-P", str(Path(__file__).with_name("zygote.py"))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            # -P keeps the folder of the script off sys.path as well.
            env={
                **os.environ,
                "PYTHONPATH": str(Path(__file__).parent),
                "OMP_NUM_THREADS": "1",
                "GLOO_SOCKET_IFNAME": "lo",
            },
        )

    def ask(self, **question: Any) -> Any:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(question) + "\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(30)
        assert self._process.stdout is not None
        self._process.stdout.close()


class Run:
    """Some ranks at work."""

    def __init__(self, zygote: Zygote, folder: Path, ids: list[int]) -> None:
        self._zygote = zygote
        self._began = time.monotonic()
        self.folder = folder
        self.ids = ids

    def signal(self, rank: int, number: signal.Signals = signal.SIGKILL) -> None:
        os.kill(self.ids[rank], number)

    def await_file(self, name: str) -> Path:
        """A file that a rank writes when it has come to some place."""
        while not (self.folder / name).exists():
            assert time.monotonic() < self._began + LIMIT, f"no {name}: {self.output()}"
            time.sleep(0.005)
        return self.folder / name

    def codes(self, seconds: float = LIMIT) -> list[int]:
        """The exit codes of all ranks, which must have ended by then."""
        ended = self._zygote.ask(wait=self.ids, seconds=seconds)
        running = [rank for rank, pid in enumerate(self.ids) if str(pid) not in ended]
        for rank in running:
            self.signal(rank)
        self._zygote.ask(wait=self.ids, seconds=10)
        assert not running, f"ranks {running} hung: {self.output()}"
        self.seconds = time.monotonic() - self._began
        return [ended[str(pid)] for pid in self.ids]

    def results(self) -> list[Any]:
        """What the ranks returned; all must have succeeded."""
        codes = self.codes()
        assert not any(codes), f"{codes}: {self.output()}"
        return [self.result(rank) for rank in range(len(self.ids))]

    def result(self, rank: int) -> Any:
        return json.loads((self.folder / f"result-{rank}.json").read_text())

    def output(self) -> str:
        texts = [f.read_text()[-2000:] for f in sorted(self.folder.glob("out-*.txt"))]
        return "\n".join(f"rank {rank}: {text}" for rank, text in enumerate(texts))


class Launch:
    """Starts the ranks of a run, each in a folder of its own."""

    def __init__(self, zygote: Zygote, folder: Path) -> None:
        self._zygote = zygote
        self._folder = folder
        self._runs = 0

    def __call__(self, task: str, size: int, **settings: Any) -> Run:
        self._runs += 1
        folder = self._folder / f"run-{self._runs}"
        folder.mkdir()
        ids = self._zygote.ask(task=task, size=size, folder=str(folder), settings=settings)
        return Run(self._zygote, folder, ids)


@pytest.fixture(scope="session")
def zygote() -> Iterator[Zygote]:
    started = Zygote()
    yield started
    started.close()


@pytest.fixture
def launch(zygote: Zygote, tmp_path: Path) -> Launch:
    return Launch(zygote, tmp_path)
