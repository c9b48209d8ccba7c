from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch

import zephon
from zephon.cli import main
from zephon.loader import ZephonDataLoader


@pytest.fixture
def state(memory_dataset: Callable[..., zephon.Dataset]) -> dict[str, bytes]:
    source = zephon.StaticMixtureWorkSource(
        [memory_dataset("a", [5, 9, 2])], {"a": 1}, exhausted_policy="repeat", shuffle_shards=False
    )
    with ZephonDataLoader(zephon.Pipeline(source).pack_flat(9).batch(2)) as loader:
        next(loader)
        return loader.state_dict()


def test_the_bytes_and_a_checkpoint_that_holds_them_say_the_same(
    state: dict[str, bytes], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "bytes").write_bytes(state["zephon"])
    torch.save({"step": 3, "model": {"w": torch.ones(2)}, "loader": state}, tmp_path / "all.pt")
    assert main(["describe", str(tmp_path / "bytes")]) == 0
    plain = capsys.readouterr().out
    assert "delivered: 1 lane-batches over 1 lanes" in plain
    assert main(["describe", str(tmp_path / "all.pt")]) == 0
    assert capsys.readouterr().out == plain


def test_archives_without_a_state_and_with_code_are_refused(
    state: dict[str, bytes], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    torch.save({"a": state, "b": state}, tmp_path / "two.pt")
    assert main(["describe", str(tmp_path / "two.pt")]) == 1
    assert "two.pt holds 2 values named 'zephon', expected one" in " ".join(
        capsys.readouterr().err.split()
    )
    torch.save({"code": Path("x")}, tmp_path / "code.pt")
    assert main(["describe", str(tmp_path / "code.pt")]) == 1
    assert "code.pt is an archive that torch.load(weights_only=True)" in " ".join(
        capsys.readouterr().err.split()
    )
