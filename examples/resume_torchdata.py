"""torchdata: the loader in the worker process of a StatefulDataLoader.

    make demo                                    # makes the folder demo
    python examples/resume_torchdata.py --data demo --checkpoints demo/resume_torchdata
    python examples/resume_torchdata.py --data demo --checkpoints demo/resume_torchdata --resume

One worker is enough, since the pipeline works ahead by itself; more would each deliver the whole
stream. With ``num_workers=0`` the loader runs in the trainer, and the rest stays as it is.
"""

from __future__ import annotations

import argparse
import hashlib
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.data import IterableDataset
from torchdata.stateful_dataloader import StatefulDataLoader

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


class Batches(IterableDataset):
    """Whose iterator is a loader: it has the state, so the dataset needs none."""

    def __init__(self, data: Path) -> None:
        self.data = data

    def __iter__(self) -> ZephonDataLoader:
        return make_loader(self.data)


def train(given: argparse.Namespace) -> None:
    torch.manual_seed(0)
    model = Model()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    loader, first = StatefulDataLoader(Batches(given.data), batch_size=None, num_workers=1), 0
    file = given.checkpoints / "checkpoint.pt"
    if given.resume:
        saved = torch.load(file, weights_only=True)
        model.load_state_dict(saved["model"])
        loader.load_state_dict(saved["data"])
        first = saved["step"]
    for step, batch in zip(range(first + 1, given.steps + 1), loader, strict=False):
        loss = loss_of(model(batch["input_ids"]), batch["labels"])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        tell(step, batch)
        if step == given.save_at:
            given.checkpoints.mkdir(parents=True, exist_ok=True)
            state = {"model": model.state_dict(), "data": loader.state_dict(), "step": step}
            torch.save(state, file)


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
