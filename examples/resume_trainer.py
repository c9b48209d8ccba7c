"""Hugging Face Trainer: the loader in the place of its own, saved by a callback.

    make demo                                    # makes the folder demo
    python examples/resume_trainer.py --data demo --checkpoints demo/resume_trainer
    python examples/resume_trainer.py --data demo --checkpoints demo/resume_trainer --resume

``ignore_data_skip`` keeps the Trainer from reading again what was read: the loader begins behind
it. There is no length, so ``max_steps`` says when training ends.
"""

from __future__ import annotations

import argparse
import hashlib
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from transformers import Trainer, TrainerCallback, TrainingArguments

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

    def forward(self, input_ids: Tensor, labels: Tensor, **_: Tensor) -> dict[str, Tensor]:
        logits = self.head(self.embed(input_ids))
        return {"loss": F.cross_entropy(logits.flatten(0, 1), labels.flatten()), "logits": logits}


def tell(step: int, batch: dict[str, Tensor]) -> None:
    digest = hashlib.sha256(batch["input_ids"].numpy().tobytes()).hexdigest()[:16]
    print(f"step {step} data {digest}", flush=True)


class DataCallback(TrainerCallback):
    """Saves the position of the data in every checkpoint, and closes the loader at the end."""

    def __init__(self, loader: ZephonDataLoader) -> None:
        self.loader = loader

    def on_save(self, args, state, control, **_) -> None:
        # On all ranks: the state is gathered. The bytes are the same on each, and one writes them.
        data = self.loader.state_dict()
        if state.is_world_process_zero:
            folder = Path(args.output_dir, f"checkpoint-{state.global_step}")
            torch.save(data, folder / "data.pt")

    def on_train_end(self, args, state, control, **_) -> None:
        self.loader.close()


class StreamTrainer(Trainer):
    """A Trainer that is given its loader."""

    def __init__(self, loader: ZephonDataLoader, **more) -> None:
        super().__init__(callbacks=[DataCallback(loader)], **more)
        self.loader = loader

    def get_train_dataloader(self) -> ZephonDataLoader:
        return self.loader

    def training_step(self, model, inputs, num_items_in_batch=None) -> Tensor:
        tell(self.state.global_step + 1, inputs)
        return super().training_step(model, inputs, num_items_in_batch)


def train(given: argparse.Namespace) -> None:
    torch.manual_seed(0)
    loader = make_loader(given.data)
    checkpoint = given.checkpoints / f"checkpoint-{given.save_at}" if given.resume else None
    if checkpoint is not None:
        loader.load_state_dict(torch.load(checkpoint / "data.pt", weights_only=True))
    arguments = TrainingArguments(
        output_dir=str(given.checkpoints),
        max_steps=given.steps,
        save_steps=given.save_at,
        ignore_data_skip=True,
        use_cpu=True,
        report_to="none",
        disable_tqdm=True,
        remove_unused_columns=False,
    )
    trainer = StreamTrainer(loader, model=Model(), args=arguments)
    trainer.train(resume_from_checkpoint=None if checkpoint is None else str(checkpoint))


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
