"""Where documents are: datasets and the formats they are read from."""

from zephon.io.dataset import Dataset
from zephon.io.memory import InMemoryShard
from zephon.io.options import CacheOptions, StoreOptions

__all__ = ["CacheOptions", "Dataset", "InMemoryShard", "StoreOptions"]
