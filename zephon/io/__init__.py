"""Where documents are: datasets and the formats they are read from."""

from zephon.io.dataset import Dataset
from zephon.io.memory import InMemoryShard

__all__ = ["Dataset", "InMemoryShard"]
