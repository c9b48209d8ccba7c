from typing import Any, SupportsIndex

import numpy as np
from numpy.typing import NDArray

class SampleGather:
    """Reads samples of one index of a GPT dataset into rows.

    Dtypes and shapes are checked here, once. What an index refers to is checked
    with each sample, so that a damaged or foreign index is an error and never a
    read outside the tokens.

    Parameters
    ----------
    tokens : integers ``[token_count]``
        int8 to int64 or uint8 to uint32.
    starts : int64 ``[sequences]``, lengths : int32 ``[sequences]``
        Where each sequence lies in ``tokens``.
    document_index : int32 ``[positions]``
        Sequences in training order.
    sample_index : int32 or int64 ``[samples + 1, 2]``
        (Position, offset) at which each sample begins.
    shuffle_index : uint32 or int64 ``[samples]``
        Row of ``sample_index`` that each sample is.
    sequence_length : int
        L, tokens of a sample.
    add_extra_token : bool
        A sample reads one token more, for its last label.
    pad_id : int or None
        Tokens equal to it have no loss and become 0; with None only what is
        filled up behind a short sample is padding.
    eod_id : int or None
    mask_eod : bool
        No loss where the input is ``eod_id``.
    restart_at_eod : bool
        Position ids begin again behind ``eod_id``.
    """

    def __init__(
        self,
        tokens: NDArray[np.integer[Any]],
        starts: NDArray[np.int64],
        lengths: NDArray[np.int32],
        document_index: NDArray[np.int32],
        sample_index: NDArray[np.integer[Any]],
        shuffle_index: NDArray[np.integer[Any]],
        *,
        sequence_length: SupportsIndex,
        add_extra_token: bool,
        pad_id: SupportsIndex | None = None,
        eod_id: SupportsIndex | None = None,
        mask_eod: bool = False,
        restart_at_eod: bool = False,
    ) -> None: ...
    def gather(
        self,
        samples: NDArray[np.int64],
        rows: NDArray[np.int64],
        tokens: NDArray[np.int64],
        labels: NDArray[np.int64],
        loss_mask: NDArray[np.float32] | None = None,
        position_ids: NDArray[np.int64] | None = None,
        document_ends: NDArray[np.uint8] | None = None,
    ) -> None:
        """Fill row ``rows[i]`` of each output with sample ``samples[i]``.

        Parameters
        ----------
        samples, rows : int64 ``[n]``
        tokens, labels, position_ids : int64 ``[rows, L]``, written
        loss_mask : float32 ``[rows, L]``, written
            1 where the label counts.
        document_ends : uint8 ``[rows, L]``, written
            1 where the input is ``eod_id`` and not padding.

        Raises
        ------
        ValueError
            An argument does not fit, or the index does not fit its tokens; the
            message names the sample.
        TypeError
            A wrong dtype.
        """

    def gather_one(
        self,
        sample: SupportsIndex,
        block: NDArray[np.int64],
        document_ends: NDArray[np.uint8] | None = None,
    ) -> None:
        """Fill one block with the sample ``sample``: a single check instead of one per output.

        Parameters
        ----------
        sample : int
        block : int64, written
            ``L`` tokens, ``L`` labels, ``L`` positions if it has room for them, and behind
            them the loss mask as float32 in ``ceil(L / 2)`` items.
        document_ends : uint8 ``[L]``, written

        Raises
        ------
        ValueError, TypeError
            As :meth:`gather`.
        """
