"""The calls of a pipeline that add functions and other operators between its stages."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Self

from zephon.description import Description
from zephon.errors import ConfigError, ConfigTypeError
from zephon.ops.chain import Chain
from zephon.ops.grouped import GROUP_DRAWS, MapGroup, StatefulFunctions, StatefulTransform
from zephon.ops.mixture import EnsureMixture, MixtureOptions, WeightBy
from zephon.ops.operator import WINDOW_DRAWS, Operator
from zephon.ops.transform import DecodeText, MapTransform, SplitLong
from zephon.options import check_int, refuse_unknown
from zephon.runtime.batches import BatchFunction
from zephon.types import SampleBatch, SampleRecord

COMMON = ("placement", "parallelism")


class OperatorStages(ABC):
    """What may stand between reading and packing, and behind batching.

    Operators work in the order of their calls. Each is a function of one document, or of the
    documents of a window of draws that begins at a multiple of its size, so a saved state is
    continued at the cost of one window. Functions may be called from several threads at once,
    again for the same document, and for documents that are never delivered: they must depend
    on what they are given alone. One that has a parameter ``key`` (an int) or ``rng`` (a
    ``numpy.random.Generator``) without a default gets one that depends on the seed, the
    source, its pass and the document, for random changes that can be repeated.

    In all calls ``parallelism`` says how many threads may be in the stage at a time, and
    that there are at least so many; ``placement`` is accepted for its callers' sake and
    changes nothing. ``version`` stands for the function in a saved state in place of a digest
    of its code: change it when the function does something else.
    """

    _said: Description

    def decode_text(
        self,
        parallelism: int | None = None,
        *,
        field: str | None = None,
        encoding: str = "utf-8",
        errors: str = "strict",
        placement: str = "auto",
        **unknown: Any,
    ) -> Self:
        """Make text of fields that hold bytes; all else passes as it is.

        Parameters
        ----------
        parallelism : int, optional
            Threads that may be in the stage at a time.
        field : str, optional
            The field to decode; all that hold bytes if not given.
        encoding, errors : str
            As of :meth:`bytes.decode`.
        placement : str
            Changes nothing.
        """
        known = ("field", "encoding", "errors", *COMMON)
        self._check_common("decode_text", parallelism, placement, unknown, known)
        return self._operate(
            DecodeText(field=field, encoding=encoding, errors=errors, parallelism=parallelism)
        )

    def map_transform(
        self,
        transform_fn: Callable[..., Any],
        *,
        drop_none: bool = True,
        placement: str = "auto",
        parallelism: int | None = None,
        version: str | int | None = None,
        **unknown: Any,
    ) -> Self:
        """Give each document to a function, which changes it, leaves it out or makes several.

        Before :meth:`tokenize` a document is a dict of its fields, as it was read. Behind it,
        and where documents are read as tokens, it has ``input_ids`` and what goes along with
        them. What comes out is such a mapping; with token ids under ``input_ids`` or
        ``tokens``, perhaps a ``loss_mask`` of the same length beside them, it is not tokenized
        any more.

        Parameters
        ----------
        transform_fn : callable
            From a document to a mapping; to None, which leaves it out and counts it; or to a
            list, tuple or iterator of mappings, which are documents of their own, with their
            numbers as lineage.
        drop_none : bool
            False makes None an error.
        placement, parallelism, version
            See the class.

        Raises
        ------
        OperatorError
            While iterating, if the function fails: names it and the document's file and
            record, with the function's own error as the cause.
        """
        known = ("drop_none", "version", *COMMON)
        self._check_common("map_transform", parallelism, placement, unknown, known)
        return self._operate(
            MapTransform(
                transform_fn, drop_none=drop_none, version=version, parallelism=parallelism
            )
        )

    def map_batch(
        self,
        transform_fn: Callable[..., SampleBatch | None],
        *,
        drop_none: bool = True,
        size: int | None = None,
        placement: str = "auto",
        parallelism: int | None = None,
        version: str | int | None = None,
        **unknown: Any,
    ) -> Self:
        """Give several documents at a time, or behind :meth:`batch` each batch, to a function.

        Before packing a group is what ``size`` draws of a lane give, from a multiple of
        ``size`` on: fewer documents if some were left out, more if some became several. The
        function may give any number of records; each keeps the meta of one that it was given,
        or has that of a child of it (``meta.child(0)``).

        Parameters
        ----------
        transform_fn : callable
            From a SampleBatch to a SampleBatch, or to None, which leaves it all out. Behind
            :meth:`batch` a batch that is left out is a step less on this rank.
        drop_none : bool
            False makes None an error.
        size : int, optional
            Draws of a group, 32 if not given. Behind :meth:`batch` it has no meaning.
        placement, parallelism, version
            See the class. Functions on batches are called by one thread.
        """
        known = ("drop_none", "size", "version", *COMMON)
        self._check_common("map_batch", parallelism, placement, unknown, known)
        if self._said.microbatch_size is None:
            group = MapGroup(
                transform_fn,
                size=GROUP_DRAWS if size is None else size,
                drop_none=drop_none,
                version=version,
                parallelism=parallelism,
            )
            return self._operate(group)
        if size is not None:
            raise ConfigError("map_batch(size=...) behind batch(...): the batches have their size")
        self._change("map_batch", None, before=())
        function = BatchFunction(function=transform_fn, drop_none=drop_none, version=version)
        self._said = replace(self._said, batch_functions=(*self._said.batch_functions, function))
        return self

    def stateful_transform(
        self,
        name: str,
        *,
        init_state: Callable[[], Any],
        push: Callable[[Any, list[SampleRecord]], tuple[Any, list[SampleRecord]]],
        flush: Callable[[Any], list[SampleRecord]] | None = None,
        should_flush: Callable[[Any], bool] | None = None,
        transform: Callable[[list[SampleRecord]], list[SampleRecord]] | None = None,
        window: int = WINDOW_DRAWS,
        placement: str = "auto",
        parallelism: int = 1,
        indexable: bool = False,
        preserves_cursor_order: bool = True,
        version: str | int | None = None,
        **unknown: Any,
    ) -> Self:
        """Let documents pass functions that remember what they have seen, in windows.

        Every lane has a state of its own, and it begins anew every ``window`` draws: what it
        holds then is flushed. So restoring computes at most that many draws again, and nothing
        that a state holds is ever saved.

        Parameters
        ----------
        name : str
            What messages and states call the stage.
        init_state : callable
            Gives the state of a window before its first document.
        push : callable
            ``push(state, [record])``: the next state, and a list of the records that come out.
        flush : callable, optional
            ``flush(state)``: the records that still come out at the end of a window.
        should_flush : callable, optional
            ``should_flush(state)`` after each push: whether to flush and begin anew then.
        transform : callable, optional
            From a list of records that come out to those that do in their place.
        window : int
            Draws, 1,024 if not given.
        indexable, preserves_cursor_order : bool
            Change nothing: order is known in any case.
        placement, parallelism, version
            See the class.
        """
        known = ("flush", "should_flush", "transform", "window", "indexable", "version")
        self._check_common("stateful_transform", parallelism, placement, unknown, (*known, *COMMON))
        for option, value in (
            ("indexable", indexable),
            ("preserves_cursor_order", preserves_cursor_order),
        ):
            if not isinstance(value, bool):
                raise ConfigTypeError(f"{option} is {value!r}, expected True or False")
        functions = StatefulFunctions(
            init_state=init_state,
            push=push,
            flush=flush,
            should_flush=should_flush,
            transform=transform,
        )
        return self._operate(
            StatefulTransform(
                name, functions, window=window, version=version, parallelism=parallelism
            )
        )

    def ensure_mixture(
        self,
        *,
        max_buffer_size: int | None = 1000,
        drain_target_ratio: float = 0.8,
        obsolete_drain_rate: float = 0.1,
        weight_by: WeightBy = "auto",
        warn_tolerance: float | None = None,
        mixture: Mapping[str, float] | None = None,
        window: int = WINDOW_DRAWS,
        placement: str = "auto",
        parallelism: int | None = None,
        version: str | int | None = None,
        **unknown: Any,
    ) -> Self:
        """Bring documents into an order that keeps the shares of the mixture.

        For behind operators that leave out or multiply documents of some sources. Documents
        of sources that are ahead wait for the others, at most ``max_buffer_size`` of them and
        at most to the end of a window of draws; none is left out. The options are those of
        :class:`zephon.ops.mixture.MixtureOptions`.

        Parameters
        ----------
        max_buffer_size : int or None
            Documents that wait at most; None keeps the shares as long as a window allows at
            all, 0 changes no order and only watches.
        drain_target_ratio : float
            When more wait, they come out until so much of ``max_buffer_size`` is left.
        obsolete_drain_rate : float
            Documents of sources without a share that come out for each one of the others.
        weight_by : callable, "samples", "auto" or str
            What a document counts: a function of its record, 1, or its field of that name.
            ``"auto"``: its tokens where the work source's shares are of tokens, else 1.
        warn_tolerance : float, optional
            Warn once if a share was off by more in a window.
        mixture : mapping, optional
            Shares by name of the dataset; those of the work source if not given.
        window : int
            Draws after which everything begins anew.
        placement, parallelism, version
            See the class.
        """
        known = tuple(MixtureOptions.__dataclass_fields__)
        self._check_common("ensure_mixture", parallelism, placement, unknown, (*known, *COMMON))
        options = MixtureOptions(
            max_buffer_size=max_buffer_size,
            drain_target_ratio=drain_target_ratio,
            obsolete_drain_rate=obsolete_drain_rate,
            weight_by=weight_by,
            warn_tolerance=warn_tolerance,
            mixture=mixture,
            window=window,
            version=version,
        )
        operator = EnsureMixture(options, parallelism=parallelism)
        names = self._source_names()
        operator.bound(names, [1.0] * len(names), by_tokens=False)  # names that are not there
        return self._operate(operator)

    def split_long_samples(self, max_length: int) -> Self:
        """Cut documents of more than ``max_length`` tokens into documents of at most so many.

        Each part is a document of its own, with positions from 0. Fields with one value for
        each token are cut with them.
        """
        return self._operate(SplitLong(max_length))

    def fetch_parallelism(self, parallelism: int | None, max_batch: int | None = None) -> Self:
        """Read documents with at least ``parallelism`` threads, or with as many as there are.

        ``max_batch`` is accepted for its callers' sake: how many are read at a time follows
        from :meth:`prefetch`.
        """
        self._refuse_while_iterating("fetch_parallelism")
        for name, value in (("parallelism", parallelism), ("max_batch", max_batch)):
            if value is not None:
                check_int(name, value, 1, 1024 if name == "parallelism" else 2**31)
        if max_batch is not None:
            self._accept(
                "fetch_parallelism",
                f"max_batch={max_batch}: how many are read at a time follows from prefetch(...)",
            )
        self._said = replace(self._said, fetch_threads=parallelism)
        return self

    def fetch(self, parallelism: int | None = None, max_batch: int | None = None) -> Self:
        """Other name of :meth:`fetch_parallelism`; documents are read with or without it."""
        return self.fetch_parallelism(parallelism, max_batch)

    def materialize(
        self, placement: str = "auto", parallelism: int | None = None, **unknown: Any
    ) -> Self:
        """Accepted for callers of other loaders: documents are whole as they are read."""
        self._refuse_while_iterating("materialize")
        self._check_common("materialize", parallelism, placement, unknown, COMMON)
        self._accept("materialize", "materialize(): documents are whole as they are read")
        return self

    def _operate(self, operator: Operator) -> Self:
        """Add an operator behind those that there are."""
        self._refuse_ready_rows(operator.call)
        self._change(operator.call, None, before=("pack_flat", "shuffle", "batch"))
        said = self._said
        if said.tokenizer is None:
            said = replace(said, operators=(*said.operators, operator))
        else:
            said = replace(said, token_operators=(*said.token_operators, operator))
        Chain(before=said.operators, after=said.token_operators)  # windows that fit together
        self._said = said
        return self

    def _check_common(
        self,
        call: str,
        parallelism: object,
        placement: object,
        unknown: Mapping[str, Any],
        known: tuple[str, ...],
    ) -> None:
        refuse_unknown(call, unknown, known)
        if parallelism is not None:
            check_int("parallelism", parallelism, 1, 1024)
        if not isinstance(placement, str):
            raise ConfigTypeError(f"placement is {placement!r}, expected a str")
        if placement != "auto":
            self._accept(
                call, f"placement={placement!r}: options(runner=...) says where functions run"
            )

    def _accept(self, call: str, text: str) -> None:
        """Note an option that changes nothing."""
        self._said = replace(self._said, accepted=(*self._said.accepted, (call, text)))

    @abstractmethod
    def _source_names(self) -> list[str]:
        """Names of the datasets."""

    @abstractmethod
    def _refuse_ready_rows(self, call: str) -> None:
        """ConfigError if the work source gives rows ready made."""

    @abstractmethod
    def _refuse_while_iterating(self, call: str) -> None:
        """LifecycleError if the stream is running."""

    @abstractmethod
    def _change(self, call: str, present: object, *, before: tuple[str, ...]) -> None:
        """Raise if ``call`` cannot be made any more, or was made with ``present``."""
