"""The order of a GPT dataset: its document, sample and shuffle index.

All three are a pure function of the sequences' lengths and the options; they
equal Megatron's bit for bit, except that the number of samples of a validation
split that keeps its last partial sequence is exact here and rounded to single
precision there.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zephon._native.mersenne import NumpyShuffle
from zephon.errors import ConfigError, DataError
from zephon.megatron.helpers import build_sample_idx
from zephon.megatron.progress import ProgressLog

_LAST_EPOCH_SHARE = 0.80  # a last epoch of fewer of its samples is shuffled apart
_INT32_MAX = 2**31 - 1


@dataclass(frozen=True, kw_only=True, slots=True)
class IndexPlan:
    """How many epochs and samples an index has, before anything is built.

    Attributes
    ----------
    tokens_per_epoch, epochs, samples : int
        ``samples`` are those of all epochs, which may be more than were asked for.
    samples_before_last : int
        Samples of all epochs but the last.
    last_epoch_apart : bool
        Whether the last epoch is shuffled on its own, behind the others.
    """

    sequence_length: int
    extra: int
    tokens_per_epoch: int
    epochs: int
    samples: int
    samples_before_last: int
    last_epoch_apart: bool
    drop_last: bool

    @property
    def shuffle_dtype(self) -> type[np.uint32] | type[np.int64]:
        """Dtype of the shuffle index."""
        return np.int64 if self.samples >= 2**32 - 2 else np.uint32


def plan_index(
    *,
    tokens_per_epoch: int,
    num_samples: int | None,
    sequence_length: int,
    add_extra_token: bool,
    drop_last: bool,
) -> IndexPlan:
    """As many epochs as ``num_samples`` take; one if it is None.

    Raises
    ------
    DataError
        Samples are asked for and there is no token.
    """
    extra = int(add_extra_token)
    if num_samples is not None and num_samples < 0:
        raise ConfigError(f"num_samples must not be negative, got {num_samples}")
    if num_samples and not tokens_per_epoch:
        raise DataError(f"{num_samples} samples are wanted, but there is no token to make them of")
    epochs = 1
    if num_samples:
        epochs = max(1, -(-(num_samples * sequence_length + extra) // tokens_per_epoch))
    usable = epochs * tokens_per_epoch - extra
    samples = max(0, usable // sequence_length if drop_last else -(-usable // sequence_length))
    before_last = 0
    apart = False
    if epochs > 1:
        assert num_samples is not None
        before_last = ((epochs - 1) * tokens_per_epoch - extra) // sequence_length
        per_epoch = (tokens_per_epoch - extra) // sequence_length
        apart = num_samples - before_last < int(_LAST_EPOCH_SHARE * per_epoch)
    return IndexPlan(
        sequence_length=sequence_length,
        extra=extra,
        tokens_per_epoch=tokens_per_epoch,
        epochs=epochs,
        samples=samples,
        samples_before_last=before_last,
        last_epoch_apart=apart,
        drop_last=drop_last,
    )


@dataclass(frozen=True, slots=True)
class GPTIndex:
    """The three arrays of a GPT dataset.

    Attributes
    ----------
    document_index : int32 ``[epochs * sequences]``
        Sequences in training order.
    sample_index : int32 or int64 ``[samples + 1, 2]``
        (Position in ``document_index``, offset in that sequence) of each sample.
    shuffle_index : uint32 or int64 ``[samples]``
        Which sample comes when.
    """

    document_index: NDArray[np.int32]
    sample_index: NDArray[np.integer[Any]]
    shuffle_index: NDArray[np.integer[Any]]

    def arrays(self) -> dict[str, NDArray[Any]]:
        """The arrays by the names that their files have."""
        return {
            "document_index": self.document_index,
            "sample_index": self.sample_index,
            "shuffle_index": self.shuffle_index,
        }


def build_index(
    plan: IndexPlan,
    *,
    sequences: NDArray[np.int32],
    lengths: NDArray[np.int32],
    random_seed: int,
    progress: ProgressLog,
) -> GPTIndex:
    """Build the index of a plan.

    Parameters
    ----------
    plan : IndexPlan
    sequences : int32 ``[n]``
        The sequences of this split.
    lengths : int32 ``[sequences of the whole dataset]``
        Tokens of each.
    random_seed : int
    progress : ProgressLog
        Told what is being done.
    """
    random = NumpyShuffle(random_seed)
    progress.doing("document index")
    documents = np.tile(sequences, plan.epochs)
    first_part = len(documents) - len(sequences) if plan.last_epoch_apart else len(documents)
    _shuffle_in_parts(random, documents, first_part)

    progress.doing("sample index")
    rows = _sample_rows(plan, documents, lengths)

    progress.doing("shuffle index")
    order: NDArray[np.integer[Any]] = np.arange(plan.samples, dtype=plan.shuffle_dtype)
    _shuffle_in_parts(
        random, order, plan.samples_before_last if plan.last_epoch_apart else plan.samples
    )
    return GPTIndex(documents, rows, order)


def _shuffle_in_parts(random: NumpyShuffle, values: NDArray[Any], first_part: int) -> None:
    """Shuffle the first ``first_part`` values, then the others, in place."""
    random.shuffle(values[:first_part])
    if first_part < len(values):
        random.shuffle(values[first_part:])


def _sample_rows(
    plan: IndexPlan, documents: NDArray[np.int32], lengths: NDArray[np.int32]
) -> NDArray[np.integer[Any]]:
    if plan.samples == 0:
        return np.zeros((1, 2), np.int32)
    return build_sample_idx(
        lengths,
        documents,
        plan.sequence_length,
        1,  # only the product counts, and an epoch may have a single token
        plan.epochs * plan.tokens_per_epoch,
        plan.drop_last,
        bool(plan.extra),
    )


def misfit(
    index: GPTIndex,
    plan: IndexPlan,
    *,
    sequences: NDArray[np.int32],
    lengths: NDArray[np.int32],
    checksummed: bool,
) -> str | None:
    """Why a stored index is not the one of this plan; None if it is.

    Dtypes, row counts and the last row are looked at. Unless a checksum has
    vouched for every byte, each document must also occur once per epoch, each
    sample once, and the sample index must be that of its documents, which costs
    about as much as building that one array.
    """
    documents, rows, order = index.document_index, index.sample_index, index.shuffle_index
    if documents.dtype != np.int32 or documents.ndim != 1:
        return f"its document index is {documents.dtype} {list(documents.shape)}"
    if rows.dtype not in (np.int32, np.int64) or rows.ndim != 2 or rows.shape[1] != 2:
        return f"its sample index is {rows.dtype} {list(rows.shape)}"
    if order.dtype not in (np.uint32, np.int64) or order.ndim != 1:
        return f"its shuffle index is {order.dtype} {list(order.shape)}"
    wanted = plan.epochs * len(sequences)
    if len(documents) != wanted:
        return f"it orders {len(documents)} documents, this configuration {wanted}"
    if len(rows) != plan.samples + 1 or len(order) != plan.samples:
        return f"it has {len(rows) - 1} samples, this configuration {plan.samples}"
    expected = last_row(plan, documents, lengths)
    if expected is None:
        return "the end of its document index names no documents of this dataset"
    if tuple(rows[-1].tolist()) != expected:
        return f"its last sample ends at {tuple(rows[-1].tolist())}, not at {expected}"
    return None if checksummed else _damage(index, plan, sequences, lengths)


def _damage(
    index: GPTIndex, plan: IndexPlan, sequences: NDArray[np.int32], lengths: NDArray[np.int32]
) -> str | None:
    documents = index.document_index
    if documents.size and not 0 <= int(documents.min()) <= int(documents.max()) < len(lengths):
        return "its document index names sequences that are not there"
    if not _each_occurs(documents, len(lengths), sequences, plan.epochs):
        return "its document index does not hold every document once per epoch"
    order = index.shuffle_index
    if order.size and not 0 <= int(order.min()) <= int(order.max()) < len(order):
        return "its shuffle index names samples that are not there"
    if not bool(np.bincount(order.astype(np.int64), minlength=len(order)).all()):
        return "its shuffle index does not hold every sample once"
    if not np.array_equal(index.sample_index, _sample_rows(plan, documents, lengths)):
        return "its sample index is not that of its document index"
    return None


def _each_occurs(
    documents: NDArray[np.int32], bound: int, sequences: NDArray[np.int32], times: int
) -> bool:
    found = np.bincount(documents, minlength=bound)
    return bool(np.array_equal(found, times * np.bincount(sequences, minlength=bound)))


def last_row(
    plan: IndexPlan, documents: NDArray[np.int32], lengths: NDArray[np.int32]
) -> tuple[int, int] | None:
    """The last row of the sample index, from the end of the document index alone.

    None if the documents at the end are not there, or hold too few tokens.
    """
    if plan.samples == 0:
        return 0, 0
    if not 0 <= int(documents[-1]) < len(lengths):
        return None
    total = plan.epochs * plan.tokens_per_epoch
    token = plan.samples * plan.sequence_length
    if token > total - plan.extra:  # a partial sample ends with the last document ...
        if not plan.extra:
            return len(documents) - 1, int(lengths[documents[-1]])
        token = total - plan.extra  # ... that has a token, at the one that is only a label
    count = 1024
    while True:
        tail = documents[-count:]
        if not 0 <= int(tail.min()) <= int(tail.max()) < len(lengths):
            return None
        sizes = lengths[tail].astype(np.int64)
        ends = total - (np.cumsum(sizes[::-1]) - sizes[::-1])[::-1]
        at = int(np.searchsorted(ends, token + plan.extra))
        if at > 0 or count >= len(documents):
            break
        count *= 4
    if at == len(ends):
        return None
    return len(documents) - len(tail) + at, int(token - (ends[at] - sizes[at]))


def check_sequences(sequences: NDArray[np.integer[Any]], available: int) -> NDArray[np.int32]:
    """Sequence numbers as int32, if each is one.

    Raises
    ------
    ConfigError
        One is not below ``available``, or ``available`` does not fit int32.
    """
    ids = np.asarray(sequences)
    if ids.ndim != 1 or (ids.size and ids.dtype.kind not in "iu"):
        raise ConfigError(f"indices must be integers [n], got {ids.dtype} {list(ids.shape)}")
    if ids.size and not 0 <= int(ids.min()) <= int(ids.max()) < available:
        raise ConfigError(
            f"indices must lie in [0, {available}), got {int(ids.min())} to {int(ids.max())}"
        )
    if available > _INT32_MAX:
        raise ConfigError(
            f"the dataset has {available} sequences; an index numbers at most {_INT32_MAX}"
        )
    return ids.astype(np.int32)
