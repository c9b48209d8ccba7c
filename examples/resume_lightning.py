"""Lightning: the loader from train_dataloader, saved by the trainer itself.

    make demo                                    # makes the folder demo
    python examples/resume_lightning.py --data demo --checkpoints demo/resume_lightning
    python examples/resume_lightning.py --data demo --checkpoints demo/resume_lightning --resume

Lightning saves and restores a loader that has ``state_dict`` and ``load_state_dict``. Of one that
has no length it reads a batch ahead, to know which is the last, and the saved position would be
one batch too far: so the loader is given a length here, that of the run.
"""

from __future__ import annotations

import argparse
import hashlib
import warnings
from pathlib import Path

import lightning
import torch
from lightning.pytorch.callbacks import ModelCheckpoint
from torch import Tensor, nn
from torch.nn import functional as F

from zephon.config import ZephonOptions, build_pipeline
from zephon.loader import ZephonDataLoader


class SizedLoader(ZephonDataLoader):
    """A loader of a run of known length."""

    steps: int

    def __len__(self) -> int:
        return self.steps


def make_loader(data: Path, steps: int) -> SizedLoader:
    recipe = {
        "sources": [
            {"name": "code", "path": "code.jsonl", "weight": 0.7},
            {"name": "prose", "path": "prose", "weight": 0.3},
        ],
        "packing": {"seq_len": 64, "algorithm": "best_fit_wrap"},
    }
    options = ZephonOptions.from_mapping(recipe, base=data)
    loader = SizedLoader(build_pipeline(options, 2, tokenizer=data / "tokenizer"))
    loader.steps = steps
    return loader


VOCABULARY = 16_384


class Model(lightning.LightningModule):
    """Predicts a token from the one before."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.head = nn.Embedding(VOCABULARY, 16), nn.Linear(16, VOCABULARY)

    def forward(self, input_ids: Tensor) -> Tensor:
        return self.head(self.embed(input_ids))

    def training_step(self, batch: dict[str, Tensor]) -> Tensor:
        tell(self.global_step + 1, batch)
        return F.cross_entropy(self(batch["input_ids"]).flatten(0, 1), batch["labels"].flatten())

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.AdamW(self.parameters(), lr=1e-3)


def tell(step: int, batch: dict[str, Tensor]) -> None:
    digest = hashlib.sha256(batch["input_ids"].numpy().tobytes()).hexdigest()[:16]
    print(f"step {step} data {digest}", flush=True)


def train(given: argparse.Namespace) -> None:
    warnings.filterwarnings("ignore", ".*does not have many workers.*")
    lightning.seed_everything(0)
    saver = ModelCheckpoint(
        given.checkpoints,
        "{step}",
        every_n_train_steps=given.save_at,
        save_top_k=-1,
        enable_version_counter=False,
    )
    trainer = lightning.Trainer(
        max_steps=given.steps,
        callbacks=[saver],
        accelerator="cpu",
        logger=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    with make_loader(given.data, given.steps) as loader:
        saved = given.checkpoints / f"step={given.save_at}.ckpt" if given.resume else None
        trainer.fit(Model(), loader, ckpt_path=saved, weights_only=True)


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
