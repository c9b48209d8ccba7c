"""What the trainer holds: batches as tensors, and the state for its checkpoint."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from types import ModuleType, TracebackType
from typing import TYPE_CHECKING, Any

from zephon.errors import ConfigError, ConfigTypeError, LifecycleError, StateError
from zephon.options import check_int

if TYPE_CHECKING:
    from zephon.packing import BatchOutputFormat, PackedSequenceContract
    from zephon.pipeline import Pipeline
    from zephon.types import SampleBatch, TensorPool, TrainingBatch

logger = logging.getLogger(__name__)

STATE_KEY = "zephon"


def convert_text_batch(
    sample_batch: SampleBatch,
    packing_contract: PackedSequenceContract | None = None,
    ignore_index: int = -100,
    mask_segment_starts: bool = False,
    allow_cross_document_attention: bool = False,
    output_format: BatchOutputFormat = "batched",
    pad_to_length: int | None = None,
    pad_token_id: int | None = None,
    pool: TensorPool | None = None,
    pin_memory: bool = False,
) -> TrainingBatch:
    """Tensors for a language model from a batch of rows.

    With ``B`` rows of ``L`` tokens and ``S = L - 1``: ``input_ids`` are a row
    without its last token, ``labels`` a row without its first.

    Parameters
    ----------
    sample_batch : SampleBatch
        Unshifted tokens; it is not changed.
    packing_contract : PackedSequenceContract, optional
        What the model wants to know of the documents in a row; ``document_ids``
        and nothing more if None.
    ignore_index : int
        Label of targets that do not count.
    mask_segment_starts : bool
        Do not learn the first token of a document from the document before it.
    allow_cross_document_attention : bool
        Let a document see those before it in its row; positions then run on.
    output_format : {"batched", "thd"}
        Masks for batches, or lengths for kernels of variable length.
    pad_to_length : int, optional
        For rows that were not packed: unshifted length to pad them to.
    pad_token_id : int, optional
        What they are padded with; needed with ``pad_to_length``.
    pool : TensorPool, optional
        Where tensors take their memory from, rather than fresh from torch.
    pin_memory : bool
        Take it pinned, for asynchronous copies to a CUDA device.

    Returns
    -------
    TrainingBatch
        At least ``input_ids``, ``labels``, ``position_ids`` int64 and
        ``padding_mask`` bool, all ``[B, S]``.

    Raises
    ------
    DataError
        A token id is outside the vocabulary.
    ConfigError
        A payload without token ids; rows of fewer than two tokens, of different
        lengths, or longer than ``pad_to_length``; positions that do not restart at 0.
    """
    if pad_to_length is not None and pad_token_id is None:
        raise ConfigError("pad_to_length needs pad_token_id: what should rows be padded with?")
    rows = sample_batch.rows(row_length=pad_to_length, pad_token_id=pad_token_id or 0)
    if not len(rows):
        raise ConfigError("the batch has no rows, expected at least one")
    batch: TrainingBatch = _text_batch().convert_rows(
        sample_batch,
        rows,
        packing_contract,
        ignore_index=ignore_index,
        mask_segment_starts=mask_segment_starts,
        joined=allow_cross_document_attention,
        output_format=output_format,
        pool=pool,
        pin_memory=pin_memory,
    )
    return batch


@cache
def _text_batch() -> ModuleType:
    """The module that needs torch; an import statement for each batch would be dear."""
    from zephon import _text_batch

    return _text_batch


class ZephonDataLoader(Iterator["TrainingBatch"]):
    """Batches of a pipeline, and the state that continues them.

    The pipeline is iterated once, from the first ``next`` on; when it is
    exhausted it stays so. There is no length.

    Parameters
    ----------
    pipeline : Pipeline
        A complete pipeline that is not being iterated.
    convert_batch : callable
        From a SampleBatch to what ``next`` returns.

    Attributes
    ----------
    use_distributed_checkpointing : bool
        True: trainers save the state through torch.distributed.checkpoint.
    """

    use_distributed_checkpointing = True

    def __init__(
        self,
        pipeline: Pipeline,
        convert_batch: Callable[[SampleBatch], TrainingBatch] = convert_text_batch,
    ) -> None:
        if not all(hasattr(pipeline, name) for name in ("checkpoint", "restore", "close", "ws")):
            raise ConfigTypeError(
                f"pipeline is a {type(pipeline).__name__}, expected a zephon.Pipeline"
            )
        if not callable(convert_batch):
            raise ConfigTypeError(
                f"convert_batch is a {type(convert_batch).__name__}, expected a callable from "
                "SampleBatch to a batch"
            )
        self._pipeline = pipeline
        self._convert_batch = convert_batch
        self._iterator: Iterator[SampleBatch] | None = None
        self._restored_checkpoint = b""
        self._component_tokens: Counter[int] = Counter()
        self._begun = self._closed = self._exhausted = False

    def __iter__(self) -> ZephonDataLoader:
        return self

    def __next__(self) -> TrainingBatch:
        if self._exhausted:
            raise StopIteration
        if self._closed:
            raise LifecycleError(
                "the loader was closed before its end: make a new one and load the state into it"
            )
        before = self._pipeline.position
        try:
            self._begun = True
            if self._iterator is None:  # or some framework has taken it away
                self._iterator = iter(self._pipeline)
            sample_batch = next(self._iterator)
            batch = self._convert_batch(sample_batch)
            self._component_tokens.update(sample_batch.token_counts())
        except StopIteration:
            if self._closed:  # by another thread or a signal handler, meanwhile
                raise LifecycleError("the loader was closed while it waited for a batch") from None
            self._exhausted = True
            self.close()
            raise
        except BaseException:
            self.close()
            # The batch was not handed out: the state stays behind the one before.
            self._pipeline.position = before
            raise
        return batch

    def __enter__(self) -> ZephonDataLoader:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    @property
    def component_tokens(self) -> Mapping[str, int]:
        """Tokens delivered by this loader, by name of the dataset."""
        datasets = self._pipeline.ws.datasets
        return {
            dataset.name: self._component_tokens[number] for number, dataset in enumerate(datasets)
        }

    def log_mixture(self) -> None:
        """Log the shares of tokens delivered so far, beside the shares of documents asked for."""
        total = sum(self._component_tokens.values()) or 1
        weights = self._pipeline.ws.weights
        for number, (name, tokens) in enumerate(self.component_tokens.items()):
            logger.info(
                "%s: %.3f%% of documents asked for, %.3f%% of tokens delivered (%d)",
                name,
                100 * weights[number] / sum(weights),
                100 * tokens / total,
                tokens,
            )

    def close(self) -> None:
        """Stop the pipeline's threads. The state stays at hand; may be called again."""
        self._closed = True
        self._pipeline.close()

    def state_dict(self) -> dict[str, bytes]:
        """``{"zephon": bytes}``: the state behind the last batch delivered.

        Empty bytes before the first batch of a fresh loader; the restored bytes
        before the first batch of a restored one. Neither touches the pipeline.
        """
        if not self._begun:
            return {STATE_KEY: self._restored_checkpoint}
        return {STATE_KEY: self._pipeline.checkpoint()["state"]}

    def local_state(self) -> bytes:
        """What this rank knows of the state, with no communication.

        :func:`zephon.state.merge` makes the state of the run from those of all ranks, should they
        be unable to meet.
        """
        return self._pipeline.local_state()

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Continue from a state; nothing is read before the next batch is asked for.

        Raises
        ------
        LifecycleError
            Iteration has begun.
        StateError
            The key is missing, its value is not bytes, or they are damaged or of
            another stream.
        """
        if self._begun:
            raise LifecycleError(
                "load_state_dict after iteration has begun: load into a fresh loader"
            )
        if not isinstance(state_dict, Mapping):
            raise ConfigTypeError(
                f"state_dict is a {type(state_dict).__name__}, expected what state_dict() gave"
            )
        if STATE_KEY not in state_dict:
            raise StateError(
                f"Expected {STATE_KEY!r} bytes in the state, found the keys "
                f"{', '.join(map(str, state_dict)) or '(there are none)'}"
            )
        data = state_dict[STATE_KEY]
        if not isinstance(data, bytes):
            raise StateError(
                f"Expected {STATE_KEY!r} bytes in the state, got {type(data).__name__}"
            )
        if not data:
            if self._restored_checkpoint:
                raise LifecycleError(
                    "an empty state for a loader that was restored: make a fresh loader to start "
                    "from the beginning"
                )
            return
        self._pipeline.restore(data)
        self._restored_checkpoint = data
        # Not checkpoint(), in which the ranks meet: a rank that was given a bad state never comes.
        position = self._pipeline.position
        logger.info("resumed behind lane-batch %d", position.delivered if position else 0)


class ValidationLoader:
    """Batches of a pipeline that is made anew for each evaluation; it has no state.

    Every ``iter`` builds a pipeline and goes through it from its beginning, so each evaluation sees
    the same batches. Leaving the loop early closes it.

    Parameters
    ----------
    make_pipeline : callable
        Returns a new pipeline that ends, such as one of
        :func:`zephon.config.create_validation_pipeline`.
    convert_batch : callable
        From a SampleBatch to what is yielded.
    max_batches : int, optional
        Batches of an evaluation at most.
    """

    def __init__(
        self,
        make_pipeline: Callable[[], Pipeline],
        convert_batch: Callable[[SampleBatch], TrainingBatch] = convert_text_batch,
        *,
        max_batches: int | None = None,
    ) -> None:
        for name, value in (("make_pipeline", make_pipeline), ("convert_batch", convert_batch)):
            if not callable(value):
                raise ConfigTypeError(f"{name} is a {type(value).__name__}, expected a callable")
        if max_batches is not None:
            check_int("max_batches", max_batches, 1, 2**62)
        self._make_pipeline = make_pipeline
        self._convert_batch = convert_batch
        self._max_batches = max_batches

    def __iter__(self) -> Iterator[TrainingBatch]:
        pipeline = self._make_pipeline()
        try:
            for number, batch in enumerate(pipeline):
                if number == self._max_batches:
                    return
                yield self._convert_batch(batch)
        finally:
            pipeline.close()
