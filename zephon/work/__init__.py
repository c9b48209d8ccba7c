"""What to train on and in what order: mixtures, orders, lanes and work sources."""

from zephon.work.base import WorkSource
from zephon.work.blend_file import Blend, load_blend
from zephon.work.lengths import TokenEstimation
from zephon.work.mixture import MixtureSpec
from zephon.work.static_mixture import StaticMixtureWorkSource

__all__ = [
    "Blend",
    "MixtureSpec",
    "StaticMixtureWorkSource",
    "TokenEstimation",
    "WorkSource",
    "load_blend",
]
