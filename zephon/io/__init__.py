"""Where documents are: datasets and the formats they are read from."""

from zephon.block import RecordDocuments, TokenDocuments
from zephon.io.dataset import Dataset
from zephon.io.memory import InMemoryShard
from zephon.io.options import CacheOptions, StoreOptions
from zephon.io.shard import Format, Place, Shard

__all__ = [
    "CacheOptions",
    "Dataset",
    "Format",
    "InMemoryShard",
    "Place",
    "RecordDocuments",
    "Shard",
    "StoreOptions",
    "TokenDocuments",
]
