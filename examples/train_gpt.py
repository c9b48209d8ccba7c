"""Train a small GPT on the demo's corpora; stop it anywhere, go on with any number of processes.

    make demo                                    # makes the folder demo
    python -m torch.distributed.run --standalone --nproc-per-node 2 examples/train_gpt.py \\
        --data demo --checkpoints demo/gpt --steps 20 --every 5 [--kill-at 12]

Model, optimizer and the position of the data are saved together through
torch.distributed.checkpoint every few steps; started again, the run goes on from
the newest checkpoint. With ``--kill-at`` every process kills itself in the middle
of a step. A step takes ``--global-batch`` micro-batches, whatever the number of
processes, so the same data makes the same step.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import signal
from contextlib import nullcontext
from itertools import islice
from pathlib import Path

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.parallel import DistributedDataParallel

import zephon
from zephon.loader import ZephonDataLoader, convert_text_batch

LANES = 8  # any number of processes that divides it may train, now and later


class Block(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.before, self.between = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
        )

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        q, k, v = (
            part.unflatten(-1, (self.heads, -1)).transpose(1, 2)
            for part in self.qkv(self.before(x)).chunk(3, dim=-1)
        )
        attended = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        x = x + self.out(attended.transpose(1, 2).flatten(2))
        return x + self.mlp(self.between(x))


class GPT(nn.Module):
    def __init__(self, vocabulary: int, width: int, layers: int, length: int) -> None:
        super().__init__()
        self.token, self.place = nn.Embedding(vocabulary, width), nn.Embedding(length, width)
        self.blocks = nn.ModuleList(Block(width, 4) for _ in range(layers))
        self.head = nn.Linear(width, vocabulary)

    def forward(self, batch: zephon.types.TrainingBatch) -> Tensor:
        ids, documents = batch["input_ids"], batch["document_ids"]
        # A token sees those before it in its own document, and padding sees itself.
        same = documents[:, :, None] == documents[:, None, :]
        mask = same.tril()[:, None]
        x = self.token(ids) + self.place(batch["position_ids"])
        for block in self.blocks:
            x = block(x, mask)
        return self.head(x)


def loader(given: argparse.Namespace, rank: int, ranks: int) -> ZephonDataLoader:
    code = zephon.Dataset.from_path("code", given.data / "code.jsonl")
    prose = zephon.Dataset.from_path("prose", given.data / "prose")
    work = zephon.StaticMixtureWorkSource(
        [code, prose], {"code": 0.7, "prose": 0.3}, shuffle_block_size=64, exhausted_policy="repeat"
    )
    pipeline = zephon.Pipeline(work).tokenize(given.data / "tokenizer", field="text")
    pipeline.pack_flat(given.length + 1, algorithm="best_fit_wrap").batch(given.rows)
    pipeline.options(canonical_replicas=LANES, dp_degree=ranks, dp_group_id=rank)
    return ZephonDataLoader(pipeline, convert_text_batch)


def newest(folder: Path) -> Path | None:
    """The last checkpoint that was written to its end."""
    done = [p for p in folder.glob("step-*") if (p / ".metadata").exists()]
    return max(done, key=lambda p: int(p.name.removeprefix("step-")), default=None)


def train(given: argparse.Namespace) -> None:
    rank, ranks = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)
    model = GPT(given.vocabulary, given.width, given.layers, given.length)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    data = loader(given, rank, ranks)
    first = 0
    if (found := newest(given.checkpoints)) is not None:
        first = int(found.name.removeprefix("step-"))
        saved = {"model": model.state_dict(), "data": data.state_dict()}
        saved["moments"] = moments(optimizer, model)
        dcp.load(saved, checkpoint_id=found)
        model.load_state_dict(saved["model"])
        restore_moments(optimizer, model, saved["moments"])
        data.load_state_dict(saved["data"])
    # It could look for parameters that got no gradient; what counts here is that its buckets then
    # never change, so that a resumed run adds gradients up in the same order, to the last bit.
    parallel = DistributedDataParallel(model, find_unused_parameters=True)
    each = given.global_batch // ranks
    with data:
        for step in range(first, given.steps):
            seen = []
            optimizer.zero_grad()
            for batch in islice(data, each):
                last = len(seen) == each - 1  # gradients are averaged once a step
                with nullcontext() if last else parallel.no_sync():
                    logits = parallel(batch)
                    loss = F.cross_entropy(logits.flatten(0, 1), batch["labels"].flatten())
                    if last and step + 1 == given.kill_at:
                        os.kill(os.getpid(), signal.SIGKILL)
                    (loss / each).backward()
                seen.append((loss.detach(), batch["input_ids"]))
            optimizer.step()
            tell(step + 1, seen, rank, ranks)
            if (step + 1) % given.every == 0:
                state = {"model": model.state_dict(), "moments": moments(optimizer, model)}
                state["data"] = data.state_dict()  # on all ranks: gathered, the same on each
                dcp.save(state, checkpoint_id=given.checkpoints / f"step-{step + 1}")


def moments(optimizer: torch.optim.AdamW, model: GPT) -> dict[str, dict[str, Tensor]]:
    """AdamW's state by the names of parameters; zeros before its first step."""
    found = {}
    for name, parameter in model.named_parameters():
        state = optimizer.state.get(parameter) or {
            "step": torch.tensor(0.0),
            "exp_avg": torch.zeros_like(parameter),
            "exp_avg_sq": torch.zeros_like(parameter),
        }
        found[name] = dict(state)
    return found


def restore_moments(
    optimizer: torch.optim.AdamW, model: GPT, saved: dict[str, dict[str, Tensor]]
) -> None:
    for name, parameter in model.named_parameters():
        optimizer.state[parameter] = saved[name]


def tell(step: int, seen: list[tuple[Tensor, Tensor]], rank: int, ranks: int) -> None:
    """Print the step's loss and a hash of its micro-batches in the order of the run."""
    losses = torch.stack([loss for loss, _ in seen])
    ids = torch.stack([tokens for _, tokens in seen])
    all_losses = [torch.empty_like(losses) for _ in range(ranks)]
    all_ids = [torch.empty_like(ids) for _ in range(ranks)]
    dist.all_gather(all_losses, losses)
    dist.all_gather(all_ids, ids)
    if rank == 0:
        order = torch.stack(all_ids, dim=1).flatten(0, 1)  # [micro-batches of the step, ...]
        digest = hashlib.sha256(order.numpy().tobytes()).hexdigest()[:16]
        loss = torch.stack(all_losses, dim=1).double().mean().item()
        print(f"step {step} loss {loss!r} data {digest}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--checkpoints", type=Path, required=True)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--every", type=int, default=5, help="steps between checkpoints")
    parser.add_argument("--kill-at", type=int, default=0, help="step in which to die")
    parser.add_argument("--global-batch", type=int, default=8, help="micro-batches of a step")
    parser.add_argument("--rows", type=int, default=1, help="rows of a micro-batch")
    parser.add_argument("--length", type=int, default=128)
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--vocabulary", type=int, default=16_384)
    given = parser.parse_args()
    dist.init_process_group("gloo")
    torch.set_num_threads(1)
    try:
        train(given)
    finally:
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
