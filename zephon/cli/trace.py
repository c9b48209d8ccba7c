"""``--trace``: the mixture over time and how full the rows are, as a picture."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from zephon.cli.failure import require
from zephon.cli.stream import WEIGHTS
from zephon.cli.tally import Tally

if TYPE_CHECKING:
    from zephon.work.base import WorkSource


def check(path: Path) -> None:
    """Refuse before the work begins what would fail after it.

    Raises
    ------
    ZephonError
        When matplotlib is missing.
    FileNotFoundError
        When the folder for the picture is.
    """
    require("matplotlib")
    if not path.absolute().parent.is_dir():
        raise FileNotFoundError(2, "the folder for the picture does not exist", str(path))


def draw(path: Path, tally: Tally, work: WorkSource) -> None:
    """Write the picture to ``path``; its suffix chooses the format, PNG without one."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    batches = range(1, len(tally.digests) + 1)
    documents = tally.documents(work)
    figure = Figure(figsize=(9, 6), layout="constrained")
    FigureCanvasAgg(figure)
    mixture, packing = figure.subplots(2, 1, sharex=True, height_ratios=(3, 2))

    for number, (name, asked) in enumerate(WEIGHTS.items()):
        colour = f"C{number}"
        share = [
            count / max(all_of_them, 1)
            for count, all_of_them in zip(documents[name], tally.started, strict=True)
        ]
        tokens = [seen[name] / max(sum(seen.values()), 1) for seen in tally.tokens]
        mixture.axhline(asked, color=colour, linestyle=":", label=f"{name}: asked")
        mixture.plot(batches, share, color=colour, label=f"{name}: documents so far")
        mixture.plot(
            batches, tokens, color=colour, linestyle="--", alpha=0.6, label=f"{name}: tokens so far"
        )
    mixture.set(ylabel="share", ylim=(0, 1), title="Mixture over time")
    mixture.legend(fontsize="small", ncols=len(WEIGHTS), loc="center right")

    packing.plot(batches, tally.filled, color="C2")
    packing.set(ylabel="slots that hold a token", ylim=(0, 1.05), xlabel="batch")
    packing.set_title(f"Packing efficiency ({tally.efficiency:.2%} in all)")
    figure.savefig(path, dpi=120)
