"""What the demo prints."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Console
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

from zephon.cli.corpora import Corpora
from zephon.cli.excerpt import Excerpt
from zephon.cli.stream import WEIGHTS, DemoStream
from zephon.cli.tally import Tally

if TYPE_CHECKING:
    from zephon.work.base import WorkSource


def show_corpora(console: Console, corpora: Corpora, *, how: str) -> None:
    """Say what the folder holds."""
    console.print(f"Corpora {how} in {corpora.folder}:", highlight=False, soft_wrap=True)
    console.print(
        f"  code       {corpora.code_documents:,} source files, "
        f"{corpora.code_bytes / 1e6:.1f} MB of JSONL\n"
        f"  prose      {corpora.prose_documents:,} documents of docstrings and help topics, "
        f"{corpora.prose_tokens:,} tokens in .bin/.idx\n"
        f"  tokenizer  {corpora.vocabulary:,} entries, byte-level BPE",
        highlight=False,
        soft_wrap=True,
    )


def show_speed(console: Console, stream: DemoStream, tally: Tally, seconds: float) -> None:
    """Say how fast the batches came, everything included."""
    tokens = sum(tally.tokens[-1].values())
    console.print(
        f"{len(tally.digests):,} batches of {stream.batch_size} x {stream.sequence_length:,} "
        f"in {seconds:.1f} s: {tokens / seconds:,.0f} tokens/s "
        "(reading, tokenizing, packing, tensors and the hash of each batch included)",
        highlight=False,
        soft_wrap=True,
    )


def show_mixture(console: Console, tally: Tally, work: WorkSource) -> None:
    """Print the achieved shares beside the asked ones."""
    documents = {name: counts[-1] for name, counts in tally.documents(work).items()}
    tokens = tally.tokens[-1]
    table = Table(title="Mixture", title_justify="left")
    table.add_column("source")
    for title in ("asked", "documents", "achieved", "tokens", "of all tokens"):
        table.add_column(title, justify="right")
    for name, asked in WEIGHTS.items():
        table.add_row(
            name,
            f"{asked:.1%}",
            f"{documents[name]:,}",
            f"{documents[name] / sum(documents.values()):.2%}",
            f"{tokens[name]:,}",
            f"{tokens[name] / sum(tokens.values()):.1%}",
        )
    console.print(table)
    console.print(
        "Weights are shares of documents: compare 'asked' with 'achieved'. The shares of tokens "
        "differ as far as the sources' documents differ in length.",
        highlight=False,
    )


def show_packing(console: Console, tally: Tally) -> None:
    """Print how full the rows are and what that costs in cut documents."""
    console.print(
        f"Packing: {tally.efficiency:.2%} of all slots hold a token; {tally.segments:,} segments "
        f"in {tally.rows:,} rows ({tally.segments / tally.rows:.1f} per row), "
        f"{tally.cut_rows / tally.rows:.0%} of the rows go on with a document that the row "
        "before began.",
        highlight=False,
    )


def show_excerpt(console: Console, excerpt: Excerpt) -> None:
    """Print text of one row with a rule wherever a document ends and the next begins."""
    console.print(
        f"Row {excerpt.row} of the first batch around its document boundaries:", highlight=False
    )
    for boundary in excerpt.boundaries:
        console.print(Text(boundary.before), soft_wrap=True)
        console.print(
            Rule(
                f"{boundary.ended} ends | {boundary.begun} begins at token {boundary.token}, "
                f"position {boundary.position}",
                style="bold",
            )
        )
        console.print(Text(boundary.after), soft_wrap=True)
        console.print(Text("[...]", style="dim"))
