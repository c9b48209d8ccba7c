"""What ranks do in the tests of this folder; zygote.py runs these functions.

Each takes the folder of its run, its rank, the number of ranks and the settings of
the test, and returns what the test wants to know, as JSON values.
"""

from __future__ import annotations

import hashlib
import json
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.distributed as dist

import zephon
from zephon.errors import ZephonError
from zephon.loader import ZephonDataLoader, convert_text_batch
from zephon.runtime.exchange import DirectoryExchange, GroupExchange, StoreExchange
from zephon.types import SampleBatch

Settings = dict[str, Any]


def initialise(folder: Path | None, rank: int, size: int, backend: str = "gloo") -> None:
    if folder is None:  # started by torchrun
        return dist.init_process_group(backend)
    return dist.init_process_group(
        backend,
        store=dist.FileStore(str(folder / "rendezvous"), size),
        rank=rank,
        world_size=size,
        timeout=timedelta(seconds=60),
    )


@contextmanager
def group(folder: Path | None, rank: int, size: int, backend: str = "gloo") -> Iterator[None]:
    initialise(folder, rank, size, backend)
    yield
    # None leaves before all are done; an error leaves at once, as in a trainer.
    GroupExchange().exchange(b"")
    dist.destroy_process_group()


def await_file(path: Path) -> None:
    while not path.exists():
        time.sleep(0.005)


def datasets(seed: int = 7) -> list[zephon.Dataset]:
    rng = np.random.default_rng(seed)
    made = []
    for name, count in (("a", 90), ("b", 40)):
        rows = [{"tokens": rng.integers(0, 999, n)} for n in rng.integers(0, 60, count)]
        made.append(zephon.Dataset.from_dict(name, {0: zephon.InMemoryShard(rows)}))
    return made


def pipeline(rank: int, size: int, settings: Settings) -> zephon.Pipeline:
    peers = settings.get("peers", 1)  # model-parallel ranks that share a data rank
    source = zephon.StaticMixtureWorkSource(
        datasets(settings.get("data", 7)),
        {"a": 2, "b": 1},
        chunk_size=16,
        seed=settings.get("seed", 0),
        exhausted_policy=settings.get("policy", "repeat"),
    )
    made = zephon.Pipeline(source).pack_flat(33, algorithm=settings.get("algorithm", "wrap"))
    if settings.get("shuffle"):
        made.shuffle(settings["shuffle"])
    options = {
        "canonical_replicas": settings.get("lanes", 8),
        "dp_degree": size // peers,
        "dp_group_id": rank // peers,
        "world_size": size,
        "global_rank": rank,
        "aggregate_timeout": settings.get("timeout", 60),
        "end": settings.get("end", "agree"),
    }
    if "directory" in settings:
        options |= {"aggregate_dir": settings["directory"], "run_id": "run"}
    made.batch(settings.get("batch", 2)).options(**options)
    if "prefetch" in settings:
        made.prefetch(settings["prefetch"])
    return made


class Seen:
    """A loader, and what it delivered: (number of the lane-batch, hash of each row)."""

    def __init__(self, rank: int, size: int, settings: Settings) -> None:
        self.batches: list[tuple[int, list[str]]] = []
        self._number = -1
        self.loader = ZephonDataLoader(pipeline(rank, size, settings), self._convert)
        if "state" in settings:
            self.loader.load_state_dict({"zephon": bytes.fromhex(settings["state"])})

    def take(self, steps: int) -> None:
        for batch in islice(self.loader, steps):
            fields = [batch[name].numpy() for name in sorted(batch)]  # type: ignore[literal-required]
            rows = [
                hashlib.sha256(b"".join(field[row].tobytes() for field in fields)).hexdigest()[:16]
                for row in range(len(fields[0]))
            ]
            self.batches.append((self._number, rows))

    def state(self) -> str:
        return self.loader.state_dict()["zephon"].hex()

    def _convert(self, batch: SampleBatch) -> zephon.types.TrainingBatch:
        self._number = batch.chunk_ids[0]
        return convert_text_batch(batch)


# --- a run without faults -------------------------------------------------------------------


def stream(folder: Path | None, rank: int, size: int, settings: Settings) -> Any:
    """Some steps from a state on, and the state behind them."""
    with group(folder, rank, size):
        seen = Seen(rank, size, settings)
        with seen.loader:
            seen.take(settings["steps"])
            return {"seen": seen.batches, "state": seen.state()}


def generations(folder: Path, rank: int, size: int, settings: Settings) -> Any:
    """One process that is a rank of runs of several sizes, one after the other."""
    results = []
    for turn, change in enumerate(settings["turns"]):
        turn_folder = folder / str(turn)
        turn_folder.mkdir(exist_ok=True)
        if rank < change["size"]:
            told = {**settings, **change}
            if "from" in change:  # the turn whose state is continued
                told["state"] = results[change["from"]]["state"]
            results.append(stream(turn_folder, rank, change["size"], told))
            if rank == 0:
                _written(turn_folder / "partial", results[-1]["state"]).rename(
                    turn_folder / "state"
                )
        else:
            await_file(turn_folder / "state")
            results.append({"seen": None, "state": (turn_folder / "state").read_text()})
    return results


# --- runs with a fault ------------------------------------------------------------------------


def told(call: Callable[[], Any]) -> list[Any]:
    """What a call raised or returned, and in how many seconds."""
    began = time.monotonic()
    try:
        result = call()
    except ZephonError as error:
        result = f"{type(error).__name__}: {error}"
    return [result, time.monotonic() - began]


def saving(folder: Path, rank: int, size: int, settings: Settings) -> Any:
    """Iterate, then save, while something happens to one rank, the victim."""
    if "directory" not in settings:
        initialise(folder, rank, size)
    victim, fault = rank == settings["victim"], settings["fault"]
    settings = {**settings, "seed": 1} if victim and fault == "other stream" else settings
    settings = {**settings, "batch": 3} if victim and fault == "uneven" else settings
    if fault == "indivisible":
        return told(lambda: pipeline(rank, size, settings))
    seen = Seen(rank, size, settings)
    seen.take(2 if victim and fault == "behind" else 3)
    if settings.get("before"):  # they have saved before, all well
        seen.state()
    if victim and fault == "raises":
        raise RuntimeError("out of memory")
    if victim and fault == "stuck":
        await_file(folder / "over")
        return None
    if victim and fault == "local error":

        def fail() -> bytes:
            raise OSError("stale file handle")

        seen.loader._pipeline.local_state = fail  # type: ignore[method-assign]
    if fault == "killed":  # while it waits in the exchange for rank 0, which is late
        if victim:
            (folder / "saving").touch()
        elif rank == 0:
            await_file(folder / "killed")
    result = told(seen.state)
    (folder / f"done-{rank}").touch()
    if fault == "stuck":  # nobody may see this process go away
        await_file(folder / "over")
    return result


def again(folder: Path, rank: int, size: int, settings: Settings) -> Any:
    """One rank is too late for the others' patience; then all try again."""
    initialise(folder, rank, size)
    seen = Seen(rank, size, settings)
    seen.take(3)
    if rank == 1:
        await_file(folder / "late")
    first = told(seen.state)
    (folder / f"tried-{rank}").touch()
    for other in range(size):
        await_file(folder / f"tried-{other}")
    return [first, told(seen.state)]


def load(folder: Path, rank: int, size: int, settings: Settings) -> Any:
    """Loading a state takes no part in any exchange: it fails at once, where it fails."""
    initialise(folder, rank, size)
    states = settings.pop("states")
    return told(lambda: Seen(rank, size, {**settings, "state": states[rank]}) and "loaded")


def misuse(folder: Path, rank: int, size: int, settings: Settings) -> Any:
    """States at every stage of a loader's life, and loads where none is allowed."""
    with group(folder, rank, size):
        seen = Seen(rank, size, settings)
        found = {"fresh": seen.state(), "fresh pipeline": _checkpoint(seen)}
        seen.take(1)
        found["iterating"] = seen.state()
        state = {"zephon": bytes.fromhex(found["iterating"])}
        found["load while iterating"] = told(lambda: seen.loader.load_state_dict(state))[0]
        found["restore while iterating"] = told(lambda: seen.loader._pipeline.restore(state))[0]
        if settings["policy"] == "redistribute":
            seen.take(10**6)
            found["exhausted"] = seen.state()
            found["after exhaustion"] = next(seen.loader, None)
        seen.loader.close()
        found["closed"] = seen.state()
        found["load when closed"] = told(lambda: seen.loader.load_state_dict(state))[0]
        other = Seen(rank, size, {**settings, "state": found["iterating"]})
        found["restored"] = other.state()
        other.loader.load_state_dict({"zephon": bytes.fromhex(found["closed"])})
        found["restored again"] = other.state()
        found["empty load"] = told(lambda: other.loader.load_state_dict({"zephon": b""}))[0]
        return found


def _checkpoint(seen: Seen) -> str:
    return str(seen.loader._pipeline.checkpoint()["state"].hex())


def other_backend(folder: Path, rank: int, size: int, settings: Settings) -> Any:
    """The default backend carries nothing between processes, as NCCL carries no CPU tensors."""
    import torch.testing._internal.distributed.fake_pg  # noqa: F401 (registers "fake")

    with group(folder, rank, size, "fake"):
        seen = Seen(rank, size, settings)
        seen.take(2)
        return [dist.get_backend(), seen.state()]


def uneven_start(folder: Path, rank: int, size: int, settings: Settings) -> Any:
    """Ranks that come seconds apart to a finite pass."""
    time.sleep(0.7 * rank)
    with group(folder, rank, size):
        seen = Seen(rank, size, settings)
        seen.take(10**6)
        return {"seen": seen.batches, "state": seen.state()}


def two_loaders(folder: Path, rank: int, size: int, settings: Settings) -> Any:
    """Two loaders save at once from two threads, while the trainer reduces in the main one."""
    with group(folder, rank, size):
        loaders = [Seen(rank, size, {**settings, "seed": seed}) for seed in (1, 2)]
        states: dict[int, list[str]] = {0: [], 1: []}
        if not settings.get("unordered"):
            for seen in loaders:  # meet once in the same order
                seen.take(1)
                seen.state()

        def save(which: int) -> None:
            for _ in range(5):
                loaders[which].take(1)
                states[which].append(loaders[which].state())
                time.sleep(0.002 * ((rank + which) % 3))

        threads = [threading.Thread(target=save, args=(which,)) for which in (0, 1)]
        for thread in threads:
            thread.start()
        total = torch.zeros(1)
        for _ in range(50):
            total += 1
            dist.all_reduce(total)
            total /= size
        for thread in threads:
            thread.join()
        for seen in loaders:
            seen.loader.close()
        return [total.item(), states]


def timed(folder: Path, rank: int, size: int, settings: Settings) -> Any:
    """Seconds of some saves, and the collectives that each of them took."""
    calls = 0
    all_gather = dist.all_gather

    def counted(*args: Any, **options: Any) -> Any:
        nonlocal calls
        calls += 1
        return all_gather(*args, **options)

    with group(folder, rank, size):
        seen = Seen(rank, size, settings)
        seen.take(1)
        seen.state()
        dist.all_gather = counted
        seconds = [told(seen.state)[1] for _ in range(21)]
        dist.all_gather = all_gather
        seen.loader.close()
        return [sorted(seconds)[10], calls / len(seconds)]


def many_passes(folder: Path, rank: int, size: int, settings: Settings) -> Any:
    """A validation loader made anew for each evaluation leaves no connections behind."""
    with group(folder, rank, size):
        counts = []
        for _ in range(6):
            seen = Seen(rank, size, settings)
            seen.take(10**6)
            counts.append(len(os.listdir("/proc/self/fd")))
        return counts


# --- a signal that asks to stop ---------------------------------------------------------------


class StopRequest:
    """Set by a signal handler, read between two steps: nothing else is done in a handler."""

    def __init__(self, *numbers: signal.Signals) -> None:
        self.here = False
        for number in numbers:
            signal.signal(number, self._set)

    def _set(self, number: int, frame: object) -> None:
        self.here = True

    def anywhere(self) -> bool:
        """Whether any rank was asked; every rank calls this behind the same step."""
        flag = torch.tensor([int(self.here)])
        dist.all_reduce(flag, op=dist.ReduceOp.MAX)
        return bool(flag.item())


def emergency(folder: Path, rank: int, size: int, settings: Settings) -> Any:
    """Train until a signal asks any rank to stop; all save behind the same step."""
    initialise(folder, rank, size)
    stop = StopRequest(signal.SIGTERM)
    seen = Seen(rank, size, settings)
    while not stop.anywhere():
        seen.take(1)
        time.sleep(0.001)
        if len(seen.batches) == 20:
            (folder / f"trains-{rank}").touch()
    result = {"seen": seen.batches, "state": seen.state()}
    seen.loader.close()
    return result


def emergency_by_files(folder: Path, rank: int, size: int, settings: Settings) -> Any:
    """The same without asking in each step: the rank that was asked names the last step.

    Every step has a collective of the trainer. Who has not entered that of the next step
    names the next one: nobody can have left it, so all find the name behind it.
    """
    initialise(folder, rank, size)
    stop, shared = StopRequest(signal.SIGTERM), Path(settings["directory"])
    seen, step, last = Seen(rank, size, settings), 0, None
    while step != last:
        if stop.here and last is None:
            with suppress(FileExistsError):
                os.link(_written(shared / f"stop-{rank}", str(step + 1)), shared / "stop")
        seen.take(1)
        dist.all_reduce(torch.zeros(1))  # the step
        step += 1
        if last is None and (shared / "stop").exists():
            last = int((shared / "stop").read_text())
        if step == 20:
            (folder / f"trains-{rank}").touch()
    result = {"seen": seen.batches, "state": seen.state()}
    seen.loader.close()
    return result


def _written(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


def save_in_handler(folder: Path, rank: int, size: int, settings: Settings) -> Any:
    """A handler that saves what this rank knows: it neither hangs nor tears anything."""
    seen = Seen(rank, size, settings)
    states: list[str] = []

    def handler(number: int, frame: object) -> None:
        states.append(seen.loader._pipeline.local_state().hex())

    signal.signal(signal.SIGUSR1, handler)
    enough = threading.Event()
    bothers = threading.Thread(target=_bother, args=(enough,))
    bothers.start()
    while len(states) < settings["signals"]:
        seen.take(1)
    enough.set()
    bothers.join()
    seen.take(5)
    seen.loader.close()
    return {"seen": seen.batches, "states": states}


def _bother(enough: threading.Event) -> None:
    while not enough.wait(0.003):
        os.kill(os.getpid(), signal.SIGUSR1)


# --- exchanges without pipelines --------------------------------------------------------------


def exchanges(folder: Path, rank: int, size: int, settings: Settings) -> Any:
    """Payloads of all lengths around those that fit one collective."""
    with group(folder, rank, size):
        exchange = GroupExchange(timeout=20)
        rounds = [
            exchange.exchange(bytes([turn + rank]) * (length * (rank + 1)))
            for turn, length in enumerate(settings["lengths"])
        ]
        return [[[len(part), sorted(set(part))] for part in found] for found in rounds] + [
            [exchange.all_true(True), exchange.all_true(rank != 1)]
        ]


def alone(folder: Path, rank: int, size: int, settings: Settings) -> Any:
    """All but one rank wait for it: in the making of an exchange, or in the exchange."""
    initialise(folder, rank, size)
    exchange = None if settings["first"] else GroupExchange(timeout=settings["timeout"])
    if rank == settings["victim"]:
        await_file(folder / "over")
        return told(lambda: bool((exchange or GroupExchange(timeout=2)).exchange(b"late")))
    result = told(
        lambda: bool((exchange or GroupExchange(timeout=settings["timeout"])).exchange(b"here"))
    )
    (folder / f"done-{rank}").touch()
    await_file(folder / "over")
    return result


def store_that_ends(folder: Path, rank: int, size: int, settings: Settings) -> Any:
    """The store that ranks meet at is served by a process that is killed."""
    if rank == 0:
        store = dist.TCPStore("localhost", 0, None, True, wait_for_workers=False)
        (folder / "port.partial").write_text(str(store.port))
        (folder / "port.partial").rename(folder / "port")
        time.sleep(600)
    await_file(folder / "port")
    store = dist.TCPStore("localhost", int((folder / "port").read_text()), None, False)
    exchange = StoreExchange(store, rank - 1, size - 1, "run", 20)
    first = [part.decode() for part in exchange.exchange(b"first")]
    (folder / f"met-{rank}").touch()
    await_file(folder / "killed")
    return [first, told(lambda: bool(exchange.exchange(b"second")))]


def leftovers(folder: Path, rank: int, size: int, settings: Settings) -> Any:
    """Meet a few times in a directory where another start of the run has been."""
    exchange = DirectoryExchange(settings["directory"], rank, size, "run", 20)
    time.sleep(settings.get("late", 0) * rank)
    found = []
    for turn in range(settings["rounds"]):
        parts = exchange.exchange(f"{settings['start']}/{turn}/{rank}".encode())
        found.append([part.decode() for part in parts])
        if settings.get("die") == [turn, rank]:
            (folder / "dies").touch()
            os.kill(os.getpid(), signal.SIGKILL)
    return found


def main() -> None:
    """Started by torchrun: the task, the folder for results and the settings are arguments."""
    task, folder, settings = sys.argv[1], Path(sys.argv[2]), json.loads(sys.argv[3])
    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    result = globals()[task](None, rank, size, settings)
    (folder / f"{rank}.json").write_text(json.dumps(result))


if __name__ == "__main__":
    main()
