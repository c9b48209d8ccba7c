from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zephon.cursor import LaneCursor

def hash_tokens(parts: Iterable[NDArray[np.integer[Any]]]) -> bytes: ...
def encode_cursors(cursors: Iterable[LaneCursor]) -> bytes: ...
