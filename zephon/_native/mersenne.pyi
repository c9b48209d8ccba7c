from typing import Any, SupportsIndex

import numpy as np
from numpy.typing import NDArray

class NumpyShuffle:
    """Shuffles as ``numpy.random.RandomState(seed)`` does, one array after the other.

    The permutations are identical to numpy's for every length, and so is what
    a shuffle leaves for the next; it drops the GIL and asks for memory ahead.

    Parameters
    ----------
    seed : int
        0 to 2**32 - 1.
    """

    def __init__(self, seed: SupportsIndex) -> None: ...
    def shuffle(self, array: NDArray[np.integer[Any]]) -> None:
        """Permute ``array`` in place.

        Parameters
        ----------
        array : integers of 32 or 64 bits ``[n]``
            Contiguous and writable.

        Raises
        ------
        TypeError, ValueError
            The array is of another kind.
        """
