"""torch.distributed.checkpoint: saved in the background, loaded as recipes do.

    make demo                                    # makes the folder demo
    python examples/resume_dcp.py --data demo --checkpoints demo/resume_dcp
    python examples/resume_dcp.py --data demo --checkpoints demo/resume_dcp --resume

The state is asked for on all ranks, before loading too, as recipes do: an unstarted loader answers
at once and asks nobody. Every other step is saved without waiting, and the plan of the first save
serves the later ones. Runs under ``torch.distributed.run`` as well.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import tempfile
from pathlib import Path

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch import Tensor, nn
from torch.nn import functional as F

from zephon.config import ZephonOptions, build_pipeline
from zephon.loader import ZephonDataLoader


def make_loader(data: Path) -> ZephonDataLoader:
    recipe = {
        "sources": [
            {"name": "code", "path": "code.jsonl", "weight": 0.7},
            {"name": "prose", "path": "prose", "weight": 0.3},
        ],
        "packing": {"seq_len": 64, "algorithm": "best_fit_wrap"},
    }
    options = ZephonOptions.from_mapping(recipe, base=data)
    return ZephonDataLoader(build_pipeline(options, 2, tokenizer=data / "tokenizer"))


VOCABULARY = 16_384


class Model(nn.Module):
    """Predicts a token from the one before."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.head = nn.Embedding(VOCABULARY, 16), nn.Linear(16, VOCABULARY)

    def forward(self, input_ids: Tensor) -> Tensor:
        return self.head(self.embed(input_ids))


def loss_of(logits: Tensor, labels: Tensor) -> Tensor:
    return F.cross_entropy(logits.flatten(0, 1), labels.flatten())


def tell(step: int, batch: dict[str, Tensor]) -> None:
    digest = hashlib.sha256(batch["input_ids"].numpy().tobytes()).hexdigest()[:16]
    print(f"step {step} data {digest}", flush=True)


def train(given: argparse.Namespace) -> None:
    torch.manual_seed(0)
    model, loader, first = Model(), make_loader(given.data), 0
    planner = dcp.DefaultSavePlanner(enable_plan_caching=True)
    saving = None
    if given.resume:
        saved = {"model": model.state_dict(), "data": loader.state_dict(), "step": 0}
        dcp.load(saved, checkpoint_id=given.checkpoints / f"step-{given.save_at}")
        model.load_state_dict(saved["model"])
        loader.load_state_dict(saved["data"])
        first = saved["step"]
    with loader:
        for step, batch in zip(range(first + 1, given.steps + 1), loader, strict=False):
            loss = loss_of(model(batch["input_ids"]), batch["labels"])
            loss.backward()
            with torch.no_grad():
                for parameter in model.parameters():
                    parameter -= 0.1 * parameter.grad
                    parameter.grad = None
            tell(step, batch)
            if (given.save_at - step) % 2 == 0:
                if saving is not None:
                    saving.result()  # one at a time
                state = {"model": model.state_dict(), "data": loader.state_dict(), "step": step}
                writer = dcp.FileSystemWriter(given.checkpoints / f"step-{step}", overwrite=True)
                saving = dcp.async_save(state, storage_writer=writer, planner=planner)
        if saving is not None:
            saving.result()


def main() -> None:
    if "RANK" in os.environ:
        dist.init_process_group("gloo")
    else:
        store = dist.FileStore(tempfile.mktemp(), 1)
        dist.init_process_group("gloo", store=store, rank=0, world_size=1)
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--checkpoints", type=Path, required=True)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--save-at", type=int, default=10, help="step behind which to save")
    parser.add_argument("--resume", action="store_true", help="go on from what was saved")
    try:
        train(parser.parse_args())
    finally:
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
