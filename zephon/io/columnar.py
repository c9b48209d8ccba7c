"""The formats of tables: Parquet and Arrow. What reads them is imported with the first file."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

from zephon.errors import ConfigError
from zephon.io.shard import Format, Shard


class ParquetFormat(Format):
    """Parquet files."""

    name = "parquet"
    suffixes = (".parquet", ".pq", ".parq")
    signatures = (b"PAR1", b"PARE")

    def open(self, path: Path) -> Shard:
        """Read the footer of one file."""
        _require_pyarrow("Parquet")
        from zephon.io.columns import ColumnShard
        from zephon.io.parquet import ParquetFile

        return ColumnShard(ParquetFile(path))


class ArrowFormat(Format):
    """Arrow IPC files (Feather version 2) and streams, which is what ``datasets`` caches are."""

    name = "arrow"
    suffixes = (".arrow", ".arrows", ".feather", ".ipc")
    signatures = (b"ARROW1", b"FEA1")

    def open(self, path: Path) -> Shard:
        """Map one file and find its record batches."""
        _require_pyarrow("Arrow")
        from zephon.io.arrow import ArrowFile
        from zephon.io.columns import ColumnShard

        return ColumnShard(ArrowFile(path))

    def recognises(self, path: Path, head: bytes) -> bool:
        """By suffix, or because it begins as a stream does."""
        size = int.from_bytes(head[4:8], "little")
        begins = head[:4] == b"\xff\xff\xff\xff" and size % 8 == 0 and 0 < size < 1 << 24
        return super().recognises(path, head) or begins


def _require_pyarrow(what: str) -> None:
    try:
        import_module("pyarrow")
    except ImportError as error:
        raise ConfigError(
            f"reading {what} needs the package pyarrow: install zephon with its extra 'parquet' "
            "(pip install './zephon[parquet]') or pyarrow itself"
        ) from error
