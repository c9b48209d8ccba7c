"""The groups of options that a recipe has, each validated when it is made."""

from __future__ import annotations

import dataclasses
import os
import types
import typing
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Self, TypedDict

from zephon.config.sources import ZephonSource, sources_from_blend
from zephon.errors import ConfigError, ConfigTypeError
from zephon.megatron.blend import BlendEntry
from zephon.ops.pack_options import PackingAlgorithm, PackOptions
from zephon.ops.shuffle import ShuffleOptions
from zephon.ops.tokenize import MissingFieldMode, SpecialTokensMode
from zephon.options import PrefetchOptions, StreamOptions, check_int
from zephon.work import TokenEstimation
from zephon.work.exhaustion import Policy
from zephon.work.source_order import BlockSize


class TokenEstimationSettings(TypedDict, total=False):
    """How token-aware allocation finds the lengths of documents; see ``TokenEstimation``."""

    calibration_samples: int
    calibration_shards_min: int
    calibration_shards_max: int
    fallback_tokens_per_byte: float
    primer: Any


def _check_bools(group: Any, *names: str) -> None:
    for name in names:
        if not isinstance(getattr(group, name), bool):
            raise ConfigTypeError(f"{name} is {getattr(group, name)!r}, expected True or False")


@dataclass(frozen=True, kw_only=True)
class ZephonSourceOptions:
    """How sources are gone through."""

    chunk_size: int = 16384
    """Draws of a lane in which every source has its share exactly."""

    shuffle_shards: bool = True
    shuffle_within_shard: bool = True
    """What is shuffled of each source, if ``shuffle_block_size`` is None."""

    shuffle_block_size: BlockSize = "auto"
    """Documents that are shuffled together, ``"auto"``, ``"global"``, or None (in files that have
    no null ``"none"``) for whole shards."""

    token_estimation: bool | TokenEstimationSettings = True
    """Whether weights are shares of tokens, and how the lengths of documents are found then;
    False: shares of documents."""

    repeat: bool = True
    """Begin a source again at its end; False: one pass, each document once."""

    exhausted_policy: Policy | None = None
    """What happens at the end of a source, instead of what ``repeat`` says."""

    stop_after_passes: int | None = None
    """End the run when each source has been gone through so often."""

    def __post_init__(self) -> None:
        _check_bools(self, "shuffle_shards", "shuffle_within_shard", "repeat")
        block: object = self.shuffle_block_size
        if block == "none":
            block = None
            object.__setattr__(self, "shuffle_block_size", None)
        if isinstance(block, str):
            if block not in ("auto", "global"):
                raise ConfigError(
                    f"shuffle_block_size is {block!r}, expected a number of "
                    "documents, 'auto', 'global' or 'none'"
                )
        elif block is not None:
            check_int("shuffle_block_size", block, 1, 2**40)
        check_int("chunk_size", self.chunk_size, 1, 2**24)
        if self.exhausted_policy is not None and self.stop_after_passes is not None:
            raise ConfigError(
                "exhausted_policy and stop_after_passes both say how the run ends: give one"
            )
        self.estimation()  # refuses what it does not know

    def estimation(self, **more: Any) -> TokenEstimation | None:
        """How weights that are shares of tokens are found; None if they are of documents."""
        settings: Any = self.token_estimation
        if isinstance(settings, bool):
            if not settings:
                return None
            settings = {}
        if not isinstance(settings, Mapping):
            raise ConfigTypeError(
                f"token_estimation is {settings!r}, expected True, False or settings"
            )
        known = {one.name for one in dataclasses.fields(TokenEstimation)}
        wanted = {**settings, **more}
        if unknown := sorted(set(wanted) - known):
            raise ConfigError(
                f"token_estimation has no setting {', '.join(unknown)}; it has: "
                f"{', '.join(sorted(known))}"
            )
        return TokenEstimation(**wanted)


@dataclass(frozen=True, kw_only=True)
class ZephonTextOptions:
    """How the text of records becomes tokens; sources of tokens pass as they are."""

    field: str = "text"
    """Field of a record that holds the text."""

    special_tokens: SpecialTokensMode = "bos_eos"
    """What is put around each document."""

    missing_field: MissingFieldMode = "error"
    """What a record without text is."""

    def __post_init__(self) -> None:
        for name in ("field", "special_tokens", "missing_field"):
            if not isinstance(getattr(self, name), str):
                raise ConfigTypeError(f"{name} is {getattr(self, name)!r}, expected a str")
        for name, values in (
            ("special_tokens", typing.get_args(SpecialTokensMode)),
            ("missing_field", typing.get_args(MissingFieldMode)),
        ):
            if getattr(self, name) not in values:
                raise ConfigError(
                    f"{name} is {getattr(self, name)!r}, expected one of "
                    f"{', '.join(map(repr, values))}"
                )


@dataclass(frozen=True, kw_only=True)
class ZephonPackingOptions:
    """How documents become rows."""

    seq_len: int
    """Tokens of the model's input: rows are one token longer, and shifted."""

    algorithm: PackingAlgorithm = "wrap"
    num_bins: int | None = None
    max_num_documents: int | None = None
    """Documents that a row holds at most."""

    drop_oversized: bool | None = None
    shuffle_after_pack: bool = True
    """Shuffle rows, so that those cut of one document part."""

    shuffle_buffer_size: int = 256
    """Rows of a lane that are shuffled together."""

    def __post_init__(self) -> None:
        check_int("seq_len", self.seq_len, 1, 2**31 - 2)
        _check_bools(self, "shuffle_after_pack")
        ShuffleOptions(buffer_size=self.shuffle_buffer_size)
        PackOptions(max_length=self.seq_len + 1, **self.packing())

    def packing(self) -> dict[str, Any]:
        """Keywords of :meth:`zephon.Pipeline.pack_flat`, besides the length."""
        return {
            "algorithm": self.algorithm,
            "num_bins": self.num_bins,
            "max_sequences_per_bin": self.max_num_documents,
            "drop_oversized": self.drop_oversized,
        }


@dataclass(frozen=True, kw_only=True)
class ZephonTrainingOptions:
    """Attention and supervision; keywords of :func:`zephon.loader.convert_text_batch`."""

    allow_cross_document_attention: bool = False
    mask_segment_starts: bool = False

    def __post_init__(self) -> None:
        _check_bools(self, "allow_cross_document_attention", "mask_segment_starts")


@dataclass(frozen=True, kw_only=True)
class ZephonPrefetchOptions:
    """How far ahead of the trainer documents are read and tokenized; None: as the pipeline does."""

    buffer_size: int | None = None
    parallelism: int | None = None

    def __post_init__(self) -> None:
        self.settled()

    def settled(self) -> PrefetchOptions:
        """With what None stands for."""
        given = {} if self.buffer_size is None else {"buffer_size": self.buffer_size}
        return PrefetchOptions(parallelism=self.parallelism, **given)


@dataclass(frozen=True, kw_only=True)
class ZephonRuntimeOptions:
    """Where the work is done, and how a pass ends."""

    runner: Literal["process", "threads", "inline"] | None = None
    """``"inline"`` starts no thread. The others, and None, use threads: no process is started, and
    what comes out is the same."""

    vocab_size: int | None = None
    """Ids that the model has; every token must be below."""

    tail: Literal["drop", "pad"] | None = None
    end: Literal["agree", "filler"] = "agree"

    def __post_init__(self) -> None:
        if self.runner not in (None, "process", "threads", "inline"):
            raise ConfigError(
                f"runner is {self.runner!r}, expected 'process', 'threads', 'inline' or None"
            )
        StreamOptions(vocab_size=self.vocab_size, tail=self.tail, end=self.end)


@dataclass(frozen=True, kw_only=True)
class ZephonWorkerOptions:
    """Threads of each stage; None: as many as suit the machine.

    Reading and tokenizing share their threads: the greater number counts. Packing is one
    thread's work, and ``pack_parallelism`` changes nothing: it is here for recipes that have it.
    """

    fetch_parallelism: int | None = None
    tokenize_parallelism: int | None = None
    pack_parallelism: int | None = None

    def __post_init__(self) -> None:
        for one in dataclasses.fields(self):
            if (value := getattr(self, one.name)) is not None:
                check_int(one.name, value, 1, 1024)

    @property
    def threads(self) -> int | None:
        """Threads that read and tokenize."""
        given = [n for n in (self.fetch_parallelism, self.tokenize_parallelism) if n is not None]
        return max(given, default=None)


@dataclass(frozen=True, kw_only=True)
class ZephonCheckpointOptions:
    """Lanes, where ranks meet to save a state, and what a restored one may differ in."""

    canonical_replicas: int | None = None
    """Lanes of the run, a multiple of every number of data-parallel ranks that it may have."""

    aggregate_dir: str | os.PathLike[str] | None = None
    """A directory that all ranks share, for ranks without a process group."""

    run_id: str | None = None
    """Names the run in ``aggregate_dir``; another one for each start of it."""

    aggregate_timeout: float = 300.0
    """Seconds that ranks wait for each other."""

    on_change: str | Collection[str] = "refuse"
    """As in :class:`zephon.options.StreamOptions`."""

    def __post_init__(self) -> None:
        StreamOptions(**self.stream())

    def stream(self) -> dict[str, Any]:
        """Keywords of :meth:`zephon.Pipeline.options`."""
        return {one.name: getattr(self, one.name) for one in dataclasses.fields(self)}


@dataclass(frozen=True, kw_only=True)
class ZephonOptions:
    """Everything that a recipe says of its data.

    Raises
    ------
    ConfigError
        If there are no sources, or two of one name, or sources beside a blend.
    """

    sources: Sequence[ZephonSource] = ()
    blend: Sequence[BlendEntry] | None = None
    """Instead of sources, which are made of it: a Megatron blend list of ``.bin/.idx`` prefixes."""

    source: ZephonSourceOptions = field(default_factory=ZephonSourceOptions)
    text: ZephonTextOptions = field(default_factory=ZephonTextOptions)
    packing: ZephonPackingOptions | None = None
    training: ZephonTrainingOptions = field(default_factory=ZephonTrainingOptions)
    prefetch: ZephonPrefetchOptions = field(default_factory=ZephonPrefetchOptions)
    runtime: ZephonRuntimeOptions = field(default_factory=ZephonRuntimeOptions)
    workers: ZephonWorkerOptions = field(default_factory=ZephonWorkerOptions)
    checkpoint: ZephonCheckpointOptions = field(default_factory=ZephonCheckpointOptions)
    base: str | os.PathLike[str] = "."
    """Folder of the recipe, from which relative paths are taken."""

    def __post_init__(self) -> None:
        if self.blend is not None:
            if self.sources:
                raise ConfigError("sources and blend are two ways to name data: give one of them")
            object.__setattr__(self, "sources", sources_from_blend(self.blend))
            object.__setattr__(self, "blend", None)  # so that a changed copy can be made
        if isinstance(self.sources, (str, Mapping)) or not isinstance(self.sources, Sequence):
            raise ConfigTypeError(f"sources is {self.sources!r}, expected a list of ZephonSource")
        if not self.sources:
            raise ConfigError("sources is empty, expected at least one")
        seen: set[str] = set()
        for one in self.sources:
            if not isinstance(one, ZephonSource):
                raise ConfigTypeError(f"sources holds {one!r}, expected a ZephonSource")
            if one.name in seen:
                raise ConfigError(f"two sources are named {one.name!r}; names tell them apart")
            seen.add(one.name)
        object.__setattr__(self, "sources", tuple(self.sources))

    @classmethod
    def from_mapping(cls, values: Mapping[str, Any], *, base: str | os.PathLike[str] = ".") -> Self:
        """The options of a recipe as a file holds them: mappings of mappings.

        Parameters
        ----------
        values : mapping
            Group names to mappings of their options, ``sources`` to a list of such.
        base : str or PathLike
            Folder of the file.

        Raises
        ------
        ConfigError
            Of an unknown key, its full name and those that there are.
        """
        made: Self = _made(cls, values, "", base=base)
        return made


def _made(kind: Any, values: Any, path: str, **more: Any) -> Any:
    """An options dataclass from a mapping, and those inside it."""
    if dataclasses.is_dataclass(values) or values is None:
        return values
    if not isinstance(values, Mapping):
        raise ConfigTypeError(f"{path or 'the options'} is {values!r}, expected a mapping")
    hints = typing.get_type_hints(kind)
    names = [one.name for one in dataclasses.fields(kind) if one.name not in more]
    if unknown := [key for key in values if key not in names]:
        where = f"{path}." if path else ""
        raise ConfigError(
            f"unknown option {', '.join(f'{where}{key}' for key in unknown)}; there are: "
            f"{', '.join(names)}"
        )
    given = {}
    for key, value in values.items():
        inner = _group(hints[key])
        below = f"{path}.{key}" if path else key
        if (
            key == "sources"
            and isinstance(value, Iterable)
            and not isinstance(value, (str, Mapping))
        ):
            value = [_made(ZephonSource, one, f"{below}[{i}]") for i, one in enumerate(value)]
        elif inner is not None:
            value = _made(inner, value, below)
        given[key] = value
    try:
        return kind(**given, **more)
    except TypeError as error:
        if isinstance(error, ConfigError):
            raise
        raise ConfigError(f"{path or 'the options'}: {error}") from None


def _group(hint: Any) -> Any:
    """The group of options that a field holds, None if it holds a value."""
    kinds = typing.get_args(hint) if typing.get_origin(hint) is types.UnionType else (hint,)
    return next((kind for kind in kinds if dataclasses.is_dataclass(kind)), None)
