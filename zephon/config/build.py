"""Pipelines from options: the source, what encodes and packs, and the end that batches."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from zephon.config.groups import ZephonOptions, ZephonPackingOptions
from zephon.config.tokens import TokenIds
from zephon.errors import ConfigError, ConfigTypeError
from zephon.io.dataset import Dataset
from zephon.options import check_int
from zephon.pipeline import Pipeline
from zephon.work import StaticMixtureWorkSource

if TYPE_CHECKING:
    import tokenizers


def create_source_pipeline(
    options: ZephonOptions,
    seed: int = 42,
    dp_rank: int = 0,
    dp_world_size: int = 1,
    measure: Callable[[Any], int] | None = None,
) -> Pipeline:
    """The source of a recipe as a pipeline, before anything encodes or packs its documents.

    Opens the sources' files and reads no document.

    Parameters
    ----------
    options : ZephonOptions
        What the recipe says.
    seed : int
        Of the order of documents.
    dp_rank, dp_world_size : int
        Which data-parallel rank of how many this is.
    measure : callable, optional
        Counts the tokens of a document, where weights are shares of tokens and the pipeline's own
        tokenizer cannot tell.

    Raises
    ------
    DataError
        A source is missing or damaged.
    ConfigError
        The options cannot work together.
    """
    check_int("dp_world_size", dp_world_size, 1, 2**16)
    check_int("dp_rank", dp_rank, 0, dp_world_size - 1)
    source = options.source
    datasets = [
        Dataset.from_path(one.name, one.resolved(options.base), fmt=one.fmt)
        for one in options.sources
    ]
    if measure is not None and source.token_estimation is False:
        raise ConfigError("measure counts tokens, but token_estimation=False asks for no shares")
    more = {} if measure is None else {"measure": measure}
    blocks = source.shuffle_block_size
    policy = source.exhausted_policy
    if policy is None and source.repeat:
        policy = "repeat"
    elif policy is None and source.stop_after_passes is None:
        policy = "redistribute"
    work = StaticMixtureWorkSource(
        datasets,
        {one.name: one.weight for one in options.sources},
        chunk_size=source.chunk_size,
        seed=seed,
        shuffle_shards=source.shuffle_shards and blocks is None,
        shuffle_within_shard=source.shuffle_within_shard and blocks is None,
        shuffle_block_size=blocks,
        exhausted_policy=policy,
        stop_after_passes=source.stop_after_passes,
        token_estimation=source.estimation(**more),
    )
    return Pipeline(work).options(
        dp_degree=dp_world_size,
        dp_group_id=dp_rank,
        vocab_size=options.runtime.vocab_size,
        tail=options.runtime.tail,
        end=options.runtime.end,
        **options.checkpoint.stream(),
    )


def finalize_pipeline(
    pipeline: Pipeline,
    options: ZephonOptions,
    batch_size: int,
    seed: int = 42,
    dp_rank: int = 0,
    dp_world_size: int = 1,
) -> None:
    """End a pipeline that encodes and packs: shuffle rows, group them, settle the threads.

    Changes ``pipeline``; reads nothing and iterates nothing.

    Parameters
    ----------
    pipeline : Pipeline
        Of :func:`create_source_pipeline`, with what encodes and packs after it.
    options : ZephonOptions
        The same as there.
    batch_size : int
        Rows of a micro-batch.
    seed, dp_rank, dp_world_size : int
        The same as there.
    """
    if not isinstance(pipeline, Pipeline):
        raise ConfigTypeError(f"pipeline is a {type(pipeline).__name__}, expected a Pipeline")
    packing = options.packing
    if packing is not None and packing.shuffle_after_pack:
        pipeline.shuffle(packing.shuffle_buffer_size, seed=seed)
    pipeline.batch(batch_size)
    _settle(pipeline, options)
    pipeline.options(dp_degree=dp_world_size, dp_group_id=dp_rank)


def _settle(pipeline: Pipeline, options: ZephonOptions) -> None:
    settled = options.prefetch.settled()
    threads = settled.parallelism or options.workers.threads
    buffer_size = 0 if options.runtime.runner == "inline" else settled.buffer_size
    pipeline.prefetch(buffer_size, threads)


def build_pipeline(
    options: ZephonOptions,
    batch_size: int,
    *,
    tokenizer: tokenizers.Tokenizer | str | os.PathLike[str] | None = None,
    token_ids: TokenIds | None = None,
    seed: int = 42,
    dp_rank: int = 0,
    dp_world_size: int = 1,
) -> Pipeline:
    """The whole pipeline of a recipe, for sources of text or of tokens.

    Parameters
    ----------
    options : ZephonOptions
        With ``packing``.
    batch_size : int
        Rows of a micro-batch.
    tokenizer : tokenizers.Tokenizer, str or PathLike, optional
        What makes tokens of text; not needed where all sources are tokens.
    token_ids : TokenIds, optional
        Ids put around documents and in padding; else as the files beside the tokenizer name them,
        and 0 for padding.
    seed, dp_rank, dp_world_size : int
        See :func:`create_source_pipeline`.
    """
    _require_packing(options)
    pipeline = create_source_pipeline(options, seed, dp_rank, dp_world_size)
    _encode(pipeline, options, tokenizer, token_ids)
    finalize_pipeline(pipeline, options, batch_size, seed, dp_rank, dp_world_size)
    return pipeline


def _require_packing(options: ZephonOptions) -> ZephonPackingOptions:
    if options.packing is None:
        raise ConfigError("packing is missing: say packing=ZephonPackingOptions(seq_len=...)")
    return options.packing


def _encode(
    pipeline: Pipeline,
    options: ZephonOptions,
    tokenizer: tokenizers.Tokenizer | str | os.PathLike[str] | None,
    token_ids: TokenIds | None,
) -> None:
    """Tokenize and pack."""
    packing, special = _require_packing(options), options.text.special_tokens
    if tokenizer is not None:
        given = {} if token_ids is None else {"bos": token_ids.bos, "eos": token_ids.eos}
        pipeline.tokenize(
            tokenizer,
            field=options.text.field,
            missing_field=options.text.missing_field,
            special_tokens=special,
            bos_token_id=given.get("bos") if "bos" in special else None,
            eos_token_id=given.get("eos") if "eos" in special else None,
        )
    pipeline.pack_flat(
        packing.seq_len + 1,
        pad_token_id=None if token_ids is None else token_ids.pad,
        **packing.packing(),
    )


def create_validation_pipeline(
    options: ZephonOptions,
    batch_size: int,
    *,
    tokenizer: tokenizers.Tokenizer | str | os.PathLike[str] | None = None,
    token_ids: TokenIds | None = None,
    dp_rank: int = 0,
    dp_world_size: int = 1,
) -> Pipeline:
    """One pass for an evaluation: in file order, the same each time, on as many steps on each rank.

    The run ends with the source that ends first (``exhausted_policy="stop"``); nothing is shuffled,
    shares are of documents, what is left at the end is padded, and ranks that have less than others
    get batches whose labels all are ignored (``end="filler"``). Lanes are the ranks of this
    evaluation.

    Parameters
    ----------
    options, batch_size, tokenizer, token_ids, dp_rank, dp_world_size
        See :func:`build_pipeline`; what ``options`` says of order, ends and lanes is not used.
    """
    _require_packing(options)
    plain = replace(
        options,
        source=replace(
            options.source,
            shuffle_shards=False,
            shuffle_within_shard=False,
            shuffle_block_size=None,
            token_estimation=False,
            exhausted_policy="stop",
            stop_after_passes=None,
        ),
        runtime=replace(options.runtime, end="filler", tail="pad"),
        checkpoint=replace(options.checkpoint, canonical_replicas=None, on_change="refuse"),
    )
    pipeline = create_source_pipeline(plain, 0, dp_rank, dp_world_size)
    _encode(pipeline, plain, tokenizer, token_ids)
    pipeline.batch(batch_size, drop_last=False)
    _settle(pipeline, plain)
    return pipeline
