from typing import SupportsIndex

import numpy as np
from numpy.typing import ArrayLike, NDArray

def build_mapping(
    docs: ArrayLike,
    sizes: ArrayLike,
    num_epochs: SupportsIndex,
    max_num_samples: SupportsIndex,
    max_seq_length: SupportsIndex,
    short_seq_prob: float,
    seed: SupportsIndex,
    verbose: bool | SupportsIndex,
    min_num_sent: SupportsIndex,
) -> NDArray[np.uint32] | NDArray[np.uint64]:
    """Samples of consecutive sentences of one document, shuffled.

    Parameters
    ----------
    docs : integers ``[documents + 1]``
        First sentence of each document, and the end of the last.
    sizes : integers ``[sentences]``
        Tokens of each sentence.
    num_epochs : int
        Times to go through the documents at most.
    max_num_samples : int
        No further epoch is begun once there are so many samples.
    max_seq_length : int
        Tokens that a sample is to reach, at least 2.
    short_seq_prob : float
        Share of samples with a shorter target: one in ``round(1 / prob)``.
    seed : int
        At least 1.
    verbose : bool
        Print how many documents were left out.
    min_num_sent : int
        Sentences of a sample, unless its document ends; documents with fewer
        are left out, as are those of several sentences with one over 512 tokens.

    Returns
    -------
    uint32 ``[samples, 3]``
        First sentence, one past the last, target length. uint64 for more than
        2**32 - 1 sentences.

    Raises
    ------
    TypeError, ValueError
        An argument is of the wrong kind or out of range; or no document makes a
        sample and the number of epochs is the greatest.
    """

def build_blocks_mapping(
    docs: ArrayLike,
    sizes: ArrayLike,
    titles_sizes: ArrayLike,
    num_epochs: SupportsIndex,
    max_num_samples: SupportsIndex,
    max_seq_length: SupportsIndex,
    seed: SupportsIndex,
    verbose: bool | SupportsIndex,
    use_one_sent_blocks: bool | SupportsIndex,
) -> NDArray[np.uint32] | NDArray[np.uint64]:
    """Blocks of consecutive sentences of one document, shuffled.

    As :func:`build_mapping`, with the room that the title leaves as target and
    nothing drawn.

    Parameters
    ----------
    titles_sizes : integers ``[documents]`` or more
        Tokens of each document's title.
    use_one_sent_blocks : bool
        Whether a block may be a single sentence; else at least two.

    Returns
    -------
    uint32 ``[samples, 4]``
        First sentence, one past the last, document, block number in its epoch.
    """
