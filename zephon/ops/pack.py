"""Packing: documents of a lane into rows of a fixed length, window by window.

======================== ===================== ============ ==========================
algorithm                a window is           documents    padding
======================== ===================== ============ ==========================
``wrap``                 one row               cut at rows  none (but for a cap)
``first_fit``            whole documents       kept whole   where nothing fits
``best_fit``             whole documents       kept whole   where nothing fits, less
``best_fit_wrap``        tokens of whole rows  few are cut  none (but for a cap)
======================== ===================== ============ ==========================

A window depends on nothing but the position it begins at, so restoring computes
it again and goes on inside it. ``first_fit`` and ``best_fit`` place the longest
document first. Documents keep their order only with ``wrap``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zephon._native import packing
from zephon.cursor import Behind, CursorLater, LaneCursor, Tokens, cursor_of
from zephon.ops.documents import DocumentStream, Parts
from zephon.ops.pack_options import WINDOW_DOCUMENTS, WINDOW_ROWS, PackOptions
from zephon.ops.row_source import Dealt, RowSource, Windows, check_window
from zephon.rows import Rows, concatenate


class WrapPacker(RowSource):
    """Documents end to end, cut where a row is full; every row is a window.

    All rows that the loaded documents fill are cut at once.
    """

    def __init__(
        self, documents: DocumentStream, options: PackOptions, *, pad_tail: bool, vocab_size: int
    ) -> None:
        self._documents = documents
        self._options = options
        self._pad_tail = pad_tail
        self._shape = _shape(options, vocab_size)
        self._cut: _Cut | None = None
        self._dealt: Dealt | None = None  # of its rows; the documents stand where those began
        self._ended = False

    def take(self, count: int) -> Rows | None:
        """The next rows; a partial one only as the last of the lane and if it is padded."""
        dealt = self._dealt
        if dealt is None or dealt.left < count:
            if self._ended:
                return None
            dealt = self._load(count)
            if dealt is None or dealt.left < count:
                return self._last()
        return dealt.batch(count)

    def cursor(self) -> LaneCursor:
        """The next document, and how much of it was taken."""
        return cursor_of(self.behind())

    def behind(self) -> Behind:
        """The rows that are cut, and how many of them were taken."""
        if self._cut is None or self._dealt is None or not self._dealt.given:
            return LaneCursor(self._documents.cursor, _evidence=self._documents.evidence())
        return CursorLater(self._cut, self._dealt.given)

    def _load(self, count: int) -> Dealt | None:
        """Cut more rows: at least ``count``, unless it is the end."""
        self._pass()
        documents = self._documents
        while documents.total() < count * self._options.max_length:
            if not documents.load():
                break
        # A cap ends rows early, so these are enough in any case, unless it is the end.
        self._cut = self._cut_all(documents.total() // self._options.max_length + 1)
        self._dealt = None if self._cut is None else Dealt(self._cut.rows)
        return self._dealt

    def _pass(self) -> None:
        """Let the documents follow to what was given."""
        if self._cut is not None and self._dealt is not None and self._dealt.given:
            self._documents.advance(*self._cut.end(self._dealt.given))
        self._cut = self._dealt = None

    def _cut_all(self, most: int) -> _Cut | None:
        """All complete rows of what is loaded, None if there is none."""
        parts = self._documents.parts
        if parts is None or not len(parts):
            return None
        cap = self._options.max_sequences_per_bin or 0
        if cap:
            most += len(parts) // cap
        room = len(parts) + most
        document, offset, length = np.empty((3, room), dtype=np.int64)
        splits = np.empty(most + 1, dtype=np.int64)
        done, segments, _, _ = packing.pack_wrap(
            parts.length,
            row_length=self._options.max_length,
            max_segments=cap,
            rows=most,
            skip=0,
            document=document,
            offset=offset,
            seg_length=length,
            splits=splits,
        )
        if done == 0:
            return None
        document, offset, length = document[:segments], offset[:segments], length[:segments]
        rows = parts.rows(document, offset, length, splits[: done + 1], **self._shape)
        return _Cut(parts, rows, document, offset)

    def _last(self) -> Rows | None:
        """What the end of the lane still gives: fewer rows than asked for."""
        self._ended = True
        rows = None
        if self._dealt is not None:
            rows, self._dealt.given = self._dealt.rows, len(self._dealt.rows)
        self._pass()
        parts, left = self._documents.parts, self._documents.total()
        tail = None
        if parts is not None and left and self._pad_tail:
            n = len(parts)
            tail = parts.rows(
                np.arange(n),
                np.zeros(n, dtype=np.int64),
                parts.length,
                np.array([0, n]),
                **self._shape,
            )
        self._documents.finish(tail_tokens=0 if tail else left)
        if rows is None:
            return tail
        return rows if tail is None else concatenate([rows, tail])


class _Cut:
    """Rows cut of loaded parts, and the position behind each.

    Parameters
    ----------
    document, offset : int64 ``[m]``
        Of each segment of ``rows`` its part, and where in that it begins.
    """

    def __init__(
        self,
        parts: Parts,
        rows: Rows,
        document: NDArray[np.int64],
        offset: NDArray[np.int64],
    ) -> None:
        last = rows.splits[1:] - 1  # [rows]: the last segment of each
        self.rows = rows
        self._parts = parts
        self._document = document[last]
        self._done = offset[last] + rows.length[last]
        self._behind = parts.cursors_behind(self._document, self._done)

    def end(self, rows: int) -> tuple[int, int]:
        """Parts that the first ``rows`` rows use up, and tokens of the part after those."""
        document, done = self._document.item(rows - 1), self._done.item(rows - 1)
        return (document + 1, 0) if done == self._parts.length[document] else (document, done)

    def cursor(self, rows: int) -> LaneCursor:
        """The position behind so many rows, at least one."""
        return self._behind.cursor(rows - 1)


class WindowPacker(Windows):
    """Rows of windows that are packed as a whole."""

    def __init__(
        self,
        documents: DocumentStream,
        options: PackOptions,
        *,
        pad_tail: bool,
        vocab_size: int,
        cursor: LaneCursor,
        names: Sequence[str] = (),
    ) -> None:
        self._documents = documents
        self._options = options
        self._pad_tail = pad_tail
        self._shape = _shape(options, vocab_size)
        group = dict(options.groups or ())
        numbers = {name: number for number, name in enumerate(dict.fromkeys(group.values()))}
        # A dataset that was taken out is in no group: its last documents are one of their own.
        self._groups = np.array(
            [numbers.get(group.get(name, ""), len(numbers)) for name in names], dtype=np.int64
        )
        self._begin = cursor.documents  # where the present window began
        self._opening: bytes | tuple[Tokens, ...] = b"" if cursor.rows else cursor.check
        if cursor.rows:
            window = check_window(self._next_window(), cursor.rows, cursor.check, "packing")
            self._window = Dealt(window, cursor.rows)

    def cursor(self) -> LaneCursor:
        """The window and how many of its rows were taken; the next window if all."""
        window = self._window
        if window is not None and not window.left:
            return LaneCursor(self._documents.cursor, _evidence=self._documents.evidence())
        if window is None or not window.given:
            return LaneCursor(self._begin, _evidence=self._opening)
        return LaneCursor(self._begin, window.given, _evidence=window.last())

    def _open(self) -> Rows | None:
        self._opening = self._documents.evidence()
        self._begin = self._documents.cursor
        window = self._next_window()
        if window is None:
            self._begin = self._documents.cursor
        return window

    def _next_window(self) -> Rows | None:
        if self._options.wraps:
            return self._best_fit_wrap()
        return self._decreasing()

    def _decreasing(self) -> Rows | None:
        """Whole documents, the longest first."""
        documents, options = self._documents, self._options
        window = max(WINDOW_DOCUMENTS, options.num_bins or 0)
        while documents.count() <= window and documents.load():
            pass  # one more than the window, to know whether it is the last
        parts = documents.parts
        if parts is None or not len(parts):
            documents.finish()
            return None
        last = len(parts) <= window
        parts = parts.first(window)
        packed = self._by_group(parts) if options.groups else self._whole(parts)
        documents.advance(len(parts))
        return self._finish(packed) if last else packed

    def _whole(self, parts: Parts) -> Rows:
        """Rows of whole documents, all of them with each other."""
        count = len(parts)
        document = np.empty(count, dtype=np.int64)
        splits = np.empty(count + 1, dtype=np.int64)
        rows = packing.pack_decreasing(
            parts.length,
            row_length=self._options.max_length,
            max_segments=self._options.max_sequences_per_bin or 0,
            best_fit=self._options.algorithm == "best_fit",
            document=document,
            splits=splits,
        )
        index, splits = _by_arrival(document, splits[: rows + 1])
        document = document[index]
        zero = np.zeros(count, dtype=np.int64)
        return parts.rows(document, zero, parts.length[document], splits, **self._shape)

    def _by_group(self, parts: Parts) -> Rows:
        """Rows of documents of one group each; the groups take turns in proportion."""
        group = self._groups[parts.source]
        packed = [self._whole(parts.take(np.flatnonzero(group == one))) for one in np.unique(group)]
        place = np.concatenate([(np.arange(len(one)) + 0.5) / len(one) for one in packed])
        return concatenate(packed).select(np.argsort(place, kind="stable"))

    def _best_fit_wrap(self) -> Rows | None:
        """Exactly the tokens of some rows, cut like wrap and arranged to be cut little."""
        documents, options = self._documents, self._options
        want = WINDOW_ROWS * options.max_length
        while documents.total() <= want and documents.load():
            pass  # one more than the window, to know whether it is the last
        parts = documents.parts
        if parts is None or not len(parts):
            documents.finish()
            return None
        ends = np.cumsum(parts.length)
        last = int(ends[-1]) <= want
        whole = len(parts) if last else int(np.searchsorted(ends, want, side="right"))
        cut = 0 if last else want - (int(ends[whole - 1]) if whole else 0)
        parts = parts.first(whole + (cut > 0))
        lengths = parts.length.copy()
        if cut:
            lengths[-1] = cut
        rows = self._arrange(parts, lengths)
        documents.advance(whole, cut)
        return self._finish(rows) if last else rows

    def _arrange(self, parts: Parts, lengths: Any) -> Rows:
        options = self._options
        cap = options.max_sequences_per_bin or 0
        total = int(lengths.sum())
        room, most = packing.best_fit_wrap_room(
            total, len(lengths), row_length=options.max_length, max_segments=cap
        )
        document, offset, length = (np.empty(room, dtype=np.int64) for _ in range(3))
        splits = np.empty(most + 1, dtype=np.int64)
        rows, segments = packing.pack_best_fit_wrap(
            lengths,
            row_length=options.max_length,
            max_segments=cap,
            document=document,
            offset=offset,
            seg_length=length,
            splits=splits,
        )
        used, splits = _by_arrival(document[:segments], splits[: rows + 1])
        return parts.rows(document[used], offset[used], length[used], splits, **self._shape)

    def _finish(self, rows: Rows) -> Rows | None:
        """The last window of a lane, without its last row if that is to be dropped."""
        dropped = 0
        if not self._pad_tail and (left := int(rows.lengths()[-1])) < rows.row_length:
            dropped = left
            rows = rows.select(slice(len(rows) - 1))
        self._documents.finish(tail_tokens=dropped)
        return rows if len(rows) else None


def _by_arrival(
    document: NDArray[np.int64], splits: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Rows in the order of their first documents, as an index of segments and new splits.

    Packing begins rows with the longest documents first. Left in that order a window would
    give out long documents and then short ones, and batches of one source and then another.
    The last row stays: at the end of a lane it is the one that is not full.
    """
    order = np.argsort(document[splits[:-2]], kind="stable")
    order = np.append(order, len(order))
    begin = splits[:-1][order]
    count = np.diff(splits)[order]
    made = np.concatenate(([0], np.cumsum(count)))
    return np.arange(len(document)) + np.repeat(begin - made[:-1], count), made


def make_packer(
    documents: DocumentStream,
    options: PackOptions,
    cursor: LaneCursor,
    *,
    pad_tail: bool,
    vocab_size: int,
    names: Sequence[str] = (),
) -> RowSource:
    """The packer of a lane that stands at ``cursor``; ``names`` are those of the datasets."""
    if options.algorithm == "wrap":
        return WrapPacker(documents, options, pad_tail=pad_tail, vocab_size=vocab_size)
    return WindowPacker(
        documents, options, pad_tail=pad_tail, vocab_size=vocab_size, cursor=cursor, names=names
    )


def _shape(options: PackOptions, vocab_size: int) -> dict[str, int]:
    return {
        "row_length": options.max_length,
        "pad_token_id": options.pad_token_id,
        "vocab_size": vocab_size,
    }
