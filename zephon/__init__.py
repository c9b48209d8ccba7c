"""Blended document collections to packed training batches for language models."""

from zephon._version import __version__

__all__ = ["__version__"]
