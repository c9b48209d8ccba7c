"""Where documents are: datasets and the formats they are read from."""

from zephon.block import RecordDocuments, TokenDocuments
from zephon.io.dataset import Dataset
from zephon.io.format_options import ArrowOptions, ParquetOptions, ParquetRGCacheOptions
from zephon.io.memory import InMemoryShard
from zephon.io.options import CacheOptions, StoreOptions
from zephon.io.shard import Format, Place, Shard

__all__ = [
    "ArrowOptions",
    "CacheOptions",
    "Dataset",
    "Format",
    "InMemoryShard",
    "ParquetOptions",
    "ParquetRGCacheOptions",
    "Place",
    "RecordDocuments",
    "Shard",
    "StoreOptions",
    "TokenDocuments",
]
