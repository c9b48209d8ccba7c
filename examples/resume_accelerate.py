"""Hugging Face Accelerate: the loader among the objects that save_state saves.

    make demo                                    # makes the folder demo
    python examples/resume_accelerate.py --data demo --checkpoints demo/resume_accelerate
    python examples/resume_accelerate.py --data demo --checkpoints demo/resume_accelerate --resume

The loader is registered, not prepared: a prepared one is read a batch ahead, and would be dealt to
ranks a second time. Give its pipeline the rank instead (``dp_rank=accelerator.process_index``).
"""

from __future__ import annotations

import argparse
import hashlib
from pathlib import Path

import torch
from accelerate import Accelerator
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
    accelerator = Accelerator(cpu=True)
    model = Model()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    model, optimizer = accelerator.prepare(model, optimizer)
    loader, first = make_loader(given.data), 0
    accelerator.register_for_checkpointing(loader)
    if given.resume:
        accelerator.load_state(str(given.checkpoints))
        first = given.save_at
    with loader:
        for step, batch in zip(range(first + 1, given.steps + 1), loader, strict=False):
            loss = loss_of(model(batch["input_ids"]), batch["labels"])
            optimizer.zero_grad()
            accelerator.backward(loss)
            optimizer.step()
            tell(step, batch)
            if step == given.save_at:
                accelerator.save_state(str(given.checkpoints))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--checkpoints", type=Path, required=True)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--save-at", type=int, default=10, help="step behind which to save")
    parser.add_argument("--resume", action="store_true", help="go on from what was saved")
    train(parser.parse_args())


if __name__ == "__main__":
    main()
