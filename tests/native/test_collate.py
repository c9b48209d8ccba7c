from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import assume, example, given
from hypothesis import strategies as st
from numpy.typing import NDArray

from oracles.collate import Segment, collate, cu_seqlens, documents, first_outside, slots
from zephon._native.collate import Buffers, collate_rows

DTYPES = ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64")
OUTPUTS = (
    "input_ids",
    "labels",
    "positions",
    "document_ids",
    "row_ids",
    "columns",
    "padding_mask",
)
PAD, IGNORE, UNWRITTEN = -3, -100, 77


@dataclass
class Case:
    """Arguments of one call, and the same rows as the oracle takes them."""

    buffers: list[NDArray[Any]]
    loss_mask: list[NDArray[np.uint8] | None]
    seg_buffer: list[int]
    seg_start: list[int]
    rows: list[list[Segment]]
    row_length: int
    shift: bool

    def segments(self) -> list[Segment]:
        return [segment for row in self.rows for segment in row]

    def width(self) -> int:
        return self.row_length - self.shift

    def table(self) -> dict[str, Any]:
        return {
            "buffers": self.buffers,
            "seg_buffer": np.array(self.seg_buffer, np.int32),
            "seg_start": np.array(self.seg_start, np.int64),
            "seg_length": np.array([len(s.tokens) for s in self.segments()], np.int64),
            "row_splits": np.cumsum([0] + [len(row) for row in self.rows], dtype=np.int64),
            "row_length": self.row_length,
            "shift": self.shift,
            "pad_id": PAD,
            "ignore_index": IGNORE,
            "mask_start": np.array([s.mask_start for s in self.segments()], np.uint8),
            "loss_mask": self.loss_mask,
        }

    def expected(self, joined: bool = False) -> dict[str, list[list[int]]]:
        rows = collate(
            self.rows,
            row_length=self.row_length,
            shift=self.shift,
            pad_id=PAD,
            ignore_index=IGNORE,
            joined=joined,
        )
        names = [name for name in OUTPUTS if self.shift or name != "labels"]
        return {name: getattr(rows, name) for name in names}

    def run(self, wanted: tuple[str, ...] = OUTPUTS, **more: Any) -> dict[str, NDArray[Any]]:
        """The wanted outputs, each checked not to have been written beside its rows."""
        framed: dict[str, Any] = {
            name: np.full(
                (len(self.rows) + 2, self.width()),
                UNWRITTEN,
                np.uint8 if name == "padding_mask" else np.int64,
            )
            for name in wanted
            if self.shift or name != "labels"
        }
        outputs: dict[str, Any] = {name: frame[1:-1] for name, frame in framed.items()}
        assert collate_rows(**{**self.table(), **more}, **outputs) is None
        for frame in framed.values():
            assert (frame[[0, -1]] == UNWRITTEN).all()
        return outputs


@st.composite
def cases(draw: st.DrawFn, shift: bool | None = None) -> Case:
    buffers: list[NDArray[Any]] = []
    masks: list[NDArray[Any] | None] = []
    for _ in range(draw(st.integers(1, 3))):
        dtype: np.dtype[Any] = np.dtype(draw(st.sampled_from(DTYPES)))
        info = np.iinfo(dtype)
        ids = st.one_of(
            st.integers(0, min(info.max, 60_000)),
            st.sampled_from([info.min, info.max]),
            st.integers(info.min, info.max),
        )
        buffer = np.array(draw(st.lists(ids, min_size=1, max_size=60)), dtype)
        buffer.flags.writeable = draw(st.booleans())
        buffers.append(buffer)
        masks.append(
            np.array(
                draw(st.lists(st.integers(0, 2), min_size=len(buffer), max_size=len(buffer)))
            ).astype(draw(st.sampled_from([np.uint8, np.bool_])))
            if draw(st.booleans())
            else None
        )
    row_length = draw(st.integers(1, 40))
    seg_buffer, seg_start, rows = [], [], []
    for _ in range(draw(st.integers(0, 4))):
        row: list[Segment] = []
        left = row_length if draw(st.booleans()) else draw(st.integers(0, row_length))
        while left > 0 and len(row) < 6:
            which = draw(st.integers(0, len(buffers) - 1))
            start = draw(st.integers(0, len(buffers[which]) - 1))
            length = draw(st.integers(1, min(left, len(buffers[which]) - start)))
            stop, mask = start + length, masks[which]
            row.append(
                Segment(
                    tokens=buffers[which][start:stop].tolist(),
                    targets=[True] * length if mask is None else (mask[start:stop] != 0).tolist(),
                    mask_start=draw(st.booleans()),
                )
            )
            seg_buffer.append(which)
            seg_start.append(start)
            left -= length
        rows.append(row)
    shifted = draw(st.booleans()) if shift is None else shift
    return Case(buffers, masks, seg_buffer, seg_start, rows, row_length, shifted)


def simple(
    rows: list[list[int]], row_length: int, *, shift: bool = True, dtype: str = "uint16"
) -> Case:
    """A case of rows of segments that are given by their lengths, out of one buffer."""
    buffer = np.arange(1, 1 + max(1, sum(map(sum, rows)))).astype(dtype)
    starts: list[int] = []
    made: list[list[Segment]] = []
    at = 0
    for row in rows:
        made.append([])
        for length in row:
            starts.append(at)
            tokens = buffer[at : at + length].tolist()
            made[-1].append(Segment(tokens, [True] * length))
            at += length
    return Case([buffer], [None], [0] * len(starts), starts, made, row_length, shift)


@given(case=cases(), wanted=st.sets(st.sampled_from(OUTPUTS)), joined=st.booleans())
@example(case=simple([], 5), wanted=set(OUTPUTS), joined=False)
@example(case=simple([[1], [1], [1]], 1), wanted=set(OUTPUTS), joined=True)
@example(case=simple([[1], [1]], 1, shift=False), wanted=set(OUTPUTS), joined=False)
@example(case=simple([[3, 2], [5]], 5), wanted=set(OUTPUTS), joined=False)
@example(case=simple([[], []], 5), wanted=set(OUTPUTS), joined=True)
@example(case=simple([[4], [4, 1], [1, 1, 1, 1, 1]], 5), wanted=set(OUTPUTS), joined=True)
def test_rows_are_those_of_the_oracle_for_any_set_of_outputs(
    case: Case, wanted: set[str], joined: bool
) -> None:
    expected = case.expected(joined)
    for name, values in case.run(tuple(wanted), joined=joined).items():
        shape = (len(case.rows), case.width())
        np.testing.assert_array_equal(values, np.reshape(expected[name], shape), err_msg=name)


@given(case=cases(), wanted=st.sets(st.sampled_from(OUTPUTS)))
def test_positions_and_document_ids_of_32_bits_are_those_of_64(
    case: Case, wanted: set[str]
) -> None:
    shape = (len(case.rows), case.width())
    narrow: dict[str, Any] = {
        n: np.full(shape, 77, np.int32) for n in ("positions", "document_ids")
    }
    narrow = {name: array for name, array in narrow.items() if name in wanted}
    others = tuple(wanted - set(narrow))
    found = case.run(others, **narrow)
    for name, values in {**found, **narrow}.items():
        np.testing.assert_array_equal(
            values, np.reshape(case.expected()[name], shape), err_msg=name
        )


@given(case=cases(), narrow=st.booleans())
@example(case=simple([], 5), narrow=False)
@example(case=simple([[1]], 1), narrow=True)
def test_tensors_are_filled_as_arrays_are(case: Case, narrow: bool) -> None:
    shape = (len(case.rows), case.width())
    kinds = dict.fromkeys(case.expected(), torch.int64)
    kinds["padding_mask"] = torch.bool
    if narrow:
        kinds["positions"] = kinds["document_ids"] = torch.int32
    tensors = {name: torch.full(shape, 1, dtype=kind) for name, kind in kinds.items()}
    assert collate_rows(**case.table(), **tensors) is None
    for name, values in case.run().items():
        np.testing.assert_array_equal(tensors[name].numpy(), values, err_msg=name)


@given(case=cases(), joined=st.booleans(), spare=st.integers(0, 2), tensors=st.booleans())
@example(case=simple([[4], [4, 1], [5, 1], []], 6), joined=True, spare=0, tensors=True)
@example(case=simple([[4], [4, 1], [5, 1], []], 6), joined=False, spare=1, tensors=False)
def test_lengths_of_documents_are_those_of_the_oracle(
    case: Case, joined: bool, spare: int, tensors: bool
) -> None:
    width = case.width()
    lengths = [[len(segment.tokens) for segment in row] for row in case.rows]
    found = [documents(row, width=width, joined=joined) for row in lengths]
    used = max(map(len, found), default=0)
    slots_of = used + spare
    out: dict[str, Any] = {
        "cu_seqlens": np.full((len(found), slots_of + 1), UNWRITTEN, np.int32),
        "seq_lens": np.full((len(found), slots_of), UNWRITTEN, np.int64),
        "seq_lens_padded": np.full((len(found), slots_of), UNWRITTEN, np.int64),
    }
    given_out = {n: torch.from_numpy(v) if tensors else v for n, v in out.items()}
    collate_rows(**case.table(), joined=joined, slots=slots_of, **given_out)
    for i, row in enumerate(found):
        room = slots_of - len(row)
        ends = cu_seqlens(row, width=width, include_padding=False)
        assert out["cu_seqlens"][i].tolist() == ends + [-1] * room
        assert out["seq_lens"][i].tolist() == row + [-1000] * room
        assert out["seq_lens_padded"][i].tolist() == slots(row, width=width) + [-1000] * room
    if used:
        spoilt = {n: np.zeros((len(found), used), np.int64) for n in ("seq_lens",)}
        with pytest.raises(ValueError, match=f"slots must be at least {used}, got {used - 1}"):
            collate_rows(**case.table(), joined=joined, slots=used - 1, **spoilt)


@given(case=cases(), vocab_size=st.integers(0, 70_000) | st.integers(0, 2**63 - 1))
def test_the_first_id_outside_the_vocabulary_is_named(case: Case, vocab_size: int) -> None:
    found = collate_rows(**case.table(), vocab_size=vocab_size)
    assert found == first_outside(case.rows, vocab_size)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("column", [0, 1, 50, 98, 99])
def test_the_vocabulary_is_checked_in_every_column_also_one_that_is_only_a_label(
    dtype: str, column: int
) -> None:
    case = simple([[100]], 100, dtype=dtype)
    assert collate_rows(**case.table(), vocab_size=101) is None
    bad = 101 if dtype.startswith("u") else -1
    case.buffers[0][column] = bad
    assert collate_rows(**case.table(), vocab_size=101) == (0, column, bad)
    assert collate_rows(**case.table(), vocab_size=0) is None


@given(case=cases(shift=True), data=st.data())
def test_a_segment_changes_nothing_but_its_own_inputs_and_the_labels_that_are_its_tokens(
    case: Case, data: st.DataObject
) -> None:
    assume(case.segments())
    # Every segment gets a buffer of its own, so that one can be changed alone.
    buffers = [
        case.buffers[which][start : start + len(segment.tokens)].copy()
        for which, start, segment in zip(
            case.seg_buffer, case.seg_start, case.segments(), strict=True
        )
    ]
    own: dict[str, Any] = {
        "buffers": buffers,
        "seg_buffer": np.arange(len(buffers), dtype=np.int32),
        "seg_start": np.zeros(len(buffers), np.int64),
        "loss_mask": None,
        "mask_start": None,
    }
    before = case.run(**own)
    changed = data.draw(st.integers(0, len(buffers) - 1))
    np.invert(buffers[changed], out=buffers[changed])
    after = case.run(**own)

    rows_of = np.repeat(np.arange(len(case.rows)), [len(row) for row in case.rows])
    row = int(rows_of[changed])
    first = int(sum(len(b) for b, r in zip(buffers[:changed], rows_of, strict=False) if r == row))
    columns = np.arange(first, first + len(buffers[changed]))
    inputs = np.zeros((len(case.rows), case.width()), bool)
    inputs[row, columns[columns < case.width()]] = True
    labels = np.zeros_like(inputs)
    labels[row, columns[columns > 0] - 1] = True

    np.testing.assert_array_equal(before["input_ids"] != after["input_ids"], inputs)
    np.testing.assert_array_equal(before["labels"] != after["labels"], labels)
    for name in ("positions", "document_ids", "padding_mask"):
        np.testing.assert_array_equal(before[name], after[name])


def test_a_padding_id_in_the_data_is_a_token_like_any_other() -> None:
    case = simple([[3]], 5)
    out = case.run(pad_id=2)
    assert out["input_ids"].tolist() == [[1, 2, 3, 2]]
    assert out["padding_mask"].tolist() == [[0, 0, 0, 1]]
    assert out["labels"].tolist() == [[2, 3, IGNORE, IGNORE]]


def test_a_mapped_read_only_file_is_read_without_a_copy(tmp_path: Path) -> None:
    np.arange(100, dtype=np.uint16).tofile(tmp_path / "tokens.bin")
    case = simple([[5], [5]], 5)
    case.buffers = [np.memmap(tmp_path / "tokens.bin", np.uint16, mode="r")]
    case.seg_start = [90, 10]
    assert case.run(("labels",))["labels"].tolist() == [[91, 92, 93, 94], [11, 12, 13, 14]]


def test_a_bool_padding_mask_is_written_like_a_byte_mask() -> None:
    case = simple([[2], []], 4)
    mask = np.ones((2, 3), bool)
    collate_rows(**case.table(), padding_mask=mask)
    assert mask.tolist() == [[False, False, True], [True, True, True]]


def test_rows_longer_than_the_prefetched_part_of_a_segment_are_complete() -> None:
    case = simple([[5000, 3000], [7999]], 8000, dtype="int32")
    expected = case.expected()
    for name, values in case.run().items():
        np.testing.assert_array_equal(values, expected[name])


def good() -> dict[str, Any]:
    """Two rows of three segments out of two buffers, with all outputs."""
    shape = (2, 4)
    return {
        "buffers": [np.arange(10, dtype=np.uint16), np.arange(6, dtype=np.int32)],
        "seg_buffer": np.array([0, 1, 1], np.int32),
        "seg_start": np.array([0, 2, 0], np.int64),
        "seg_length": np.array([3, 2, 4], np.int64),
        "row_splits": np.array([0, 2, 3], np.int64),
        "row_length": 5,
        "shift": True,
        "pad_id": 0,
        "ignore_index": -100,
        "mask_start": np.zeros(3, np.uint8),
        "loss_mask": [None, np.ones(6, np.uint8)],
        **{name: np.zeros(shape, np.int64) for name in OUTPUTS[:-1]},
        "padding_mask": np.zeros(shape, np.uint8),
    }


def read_only(array: NDArray[Any]) -> NDArray[Any]:
    array.flags.writeable = False
    return array


def misaligned(dtype: type[Any], size: int) -> NDArray[Any]:
    room = np.zeros((size + 1) * np.dtype(dtype).itemsize, np.uint8)
    return room[1 : 1 + size * np.dtype(dtype).itemsize].view(dtype)


I32, I64, U8 = np.int32, np.int64, np.uint8
HUGE = 2**63 - 1

VALUE_ERRORS: dict[str, tuple[str, Any, str]] = {
    "no splits": ("row_splits", np.array([], I64), "end of each row, got no entry"),
    "splits start": ("row_splits", np.array([1, 2, 3], I64), "must start at 0, got 1"),
    "splits order": (
        "row_splits",
        np.array([0, 3, 2, 3], I64),
        "must ascend, got 3 before 2 at index 1",
    ),
    "splits end": (
        "row_splits",
        np.array([0, 2, 2], I64),
        "must end at the number of segments, 3, got 2",
    ),
    "splits beyond": ("row_splits", np.array([0, 2, HUGE], I64), f"segments, 3, got {HUGE}"),
    "zero length": ("seg_length", np.array([3, 0, 4], I64), "at least 1, got 0 at index 1"),
    "negative length": ("seg_length", np.array([3, 2, -4], I64), "at least 1, got -4 at index 2"),
    "long row": (
        "seg_length",
        np.array([3, 3, 4], I64),
        "seg_length must sum to at most row_length = 5 in each row, got more in row 0",
    ),
    "overflowing row": ("seg_length", np.array([3, HUGE, 4], I64), "got more in row 0"),
    "buffer number": (
        "seg_buffer",
        np.array([0, 2, 1], I32),
        r"seg_buffer must lie in \[0, 2\), got 2 at index 1",
    ),
    "negative buffer": ("seg_buffer", np.array([0, 1, -1], I32), "got -1 at index 2"),
    "beyond buffer": (
        "seg_start",
        np.array([0, 5, 0], I64),
        r"segment 1 must lie inside buffers\[1\], which has 6 tokens, "
        "got seg_start 5 and seg_length 2",
    ),
    "negative start": ("seg_start", np.array([-1, 2, 0], I64), "got seg_start -1 and seg_length 3"),
    "overflowing start": ("seg_start", np.array([0, HUGE, 0], I64), f"seg_start {HUGE} and"),
    "start shape": (
        "seg_start",
        np.zeros(2, I64),
        r"seg_start must have shape \[3\], got int64 \[2\]",
    ),
    "buffer shape": ("seg_buffer", np.zeros((3, 1), I32), r"shape \[3\], got int32 \[3, 1\]"),
    "length shape": ("seg_length", np.zeros((), I64), r"seg_length must have shape \[any\]"),
    "mask shape": ("mask_start", np.zeros(4, U8), r"mask_start must have shape \[3\], got uint8"),
    "loss mask shape": (
        "loss_mask",
        [np.ones(9, U8), None],
        r"loss_mask\[0\] must have shape \[10\], got uint8 \[9\]",
    ),
    "loss mask count": (
        "loss_mask",
        [None],
        "loss_mask must have one entry for each of the 2 buffers, got 1",
    ),
    "output rows": (
        "labels",
        np.zeros((3, 4), I64),
        r"labels must have shape \[2, 4\], got int64 \[3, 4\]",
    ),
    "output width": ("input_ids", np.zeros((2, 5), I64), r"input_ids must have shape \[2, 4\]"),
    "padding shape": ("padding_mask", np.zeros((2, 5), bool), r"\[2, 4\], got bool \[2, 5\]"),
    "read-only output": (
        "positions",
        read_only(np.zeros((2, 4), I64)),
        "positions must be writable, got a read-only array",
    ),
    "strided output": (
        "document_ids",
        np.zeros((2, 8), I64)[:, ::2],
        r"document_ids must be C-contiguous, got strided int64 \[2, 4\]",
    ),
    "transposed output": ("labels", np.zeros((4, 2), I64).T, "labels must be C-contiguous"),
    "strided segments": ("seg_start", np.zeros(6, I64)[::2], "seg_start must be C-contiguous"),
    "no row length": ("row_length", 0, r"row_length must lie in \[1, 2147483647\], got 0"),
    "row length": ("row_length", 2**31, "row_length must lie in .* got 2147483648"),
    "vocabulary": ("vocab_size", -1, r"vocab_size must lie in \[0, .*\], got -1"),
    "pad id": ("pad_id", 2**63, "pad_id must lie in .* got 9223372036854775808"),
    "ignore index": ("ignore_index", -(2**63) - 1, "ignore_index must lie in"),
    "two-dimensional buffer": (
        "buffers",
        [np.zeros((2, 5), np.uint16), np.arange(6)],
        r"buffers\[0\] must have shape \[any\], got uint16 \[2, 5\]",
    ),
    "misaligned buffer": (
        "buffers",
        [misaligned(np.uint16, 10), np.arange(6)],
        r"buffers\[0\] must be aligned to its 2 byte items",
    ),
}

TYPE_ERRORS: dict[str, tuple[str, Any, str]] = {
    "unsigned 64": (
        "buffers",
        [np.zeros(10, np.uint64), np.arange(6)],
        r"buffers\[0\] must be an int8 to int64 or uint8 to uint32 array, got uint64 \[10\]",
    ),
    "float buffer": ("buffers", [np.arange(10), np.zeros(6)], r"buffers\[1\] .* got float64 \[6\]"),
    "bool buffer": ("buffers", [np.zeros(10, bool), np.arange(6)], r"got bool \[10\]"),
    "byte-swapped buffer": (
        "buffers",
        [np.zeros(10, ">i4"), np.arange(6)],
        r"buffers\[0\] .* got format '>i' \[10\]",
    ),
    "list buffer": ("buffers", [[1, 2], np.arange(6)], r"buffers\[0\] .* got list"),
    "date buffer": ("buffers", [np.zeros(10, "M8[s]"), np.arange(6)], r"\[0\] .* got ndarray"),
    "wide buffer numbers": (
        "seg_buffer",
        np.zeros(3, I64),
        r"seg_buffer must be an int32 array, got int64 \[3\]",
    ),
    "narrow starts": ("seg_start", np.zeros(3, I32), "seg_start must be an int64 array, got int32"),
    "unsigned starts": ("seg_start", np.zeros(3, np.uint64), "got uint64"),
    "float lengths": ("seg_length", np.zeros(3), "seg_length must be an int64 array, got float64"),
    "list splits": ("row_splits", [0, 2, 3], "row_splits must be an int64 array, got list"),
    "missing splits": ("row_splits", None, "row_splits must be an int64 array, got NoneType"),
    "wide mask": ("mask_start", np.zeros(3, I64), "mask_start must be a uint8 or bool array, got"),
    "signed mask": ("mask_start", np.zeros(3, np.int8), r"got int8 \[3\]"),
    "wide loss mask": ("loss_mask", [None, np.ones(6)], r"loss_mask\[1\] must be a uint8 or bool"),
    "narrow output": ("labels", np.zeros((2, 4), I32), "labels must be an int64 array, got int32"),
    "short positions": (
        "positions",
        np.zeros((2, 4), np.int16),
        "an int64 or int32 array, .*int16",
    ),
    "unlike documents": (
        "document_ids",
        np.zeros((2, 4), I32),
        r"document_ids must be an int64 or int32 array, the same as positions, got int32 \[2, 4\]",
    ),
    "wide padding": ("padding_mask", np.zeros((2, 4), I64), "padding_mask must be a uint8 or bool"),
    "float row length": ("row_length", 5.0, "row_length must be an integer, got 5.0"),
    "bool vocabulary": ("vocab_size", True, "vocab_size must be an integer, got True"),
    "string pad id": ("pad_id", "0", "pad_id must be an integer, got '0'"),
    "no ignore index": ("ignore_index", None, "ignore_index must be an integer, got None"),
}


def test_the_arguments_that_the_errors_spoil_are_good() -> None:
    assert collate_rows(**good()) is None


@pytest.mark.parametrize("error", VALUE_ERRORS)
def test_a_wrong_value_is_refused_by_name(error: str) -> None:
    name, value, message = VALUE_ERRORS[error]
    with pytest.raises(ValueError, match=message):
        collate_rows(**{**good(), name: value})


@pytest.mark.parametrize("error", TYPE_ERRORS)
def test_a_wrong_type_is_refused_by_name(error: str) -> None:
    name, value, message = TYPE_ERRORS[error]
    with pytest.raises(TypeError, match=message):
        collate_rows(**{**good(), name: value})


@pytest.mark.parametrize(
    ("name", "tensor", "message"),
    [
        (
            "labels",
            torch.zeros((2, 4), dtype=torch.float64),
            r"labels must be a contiguous torch.int64 tensor \[2, 4\] of the CPU, "
            r"got torch.float64 \[2, 4\] on cpu, strides \[4, 1\]",
        ),
        ("input_ids", torch.zeros((2, 5), dtype=torch.int64), r"got torch.int64 \[2, 5\] on cpu"),
        ("columns", torch.zeros((4, 2), dtype=torch.int64).T, r"cpu, strides \[1, 2\]"),
        ("row_ids", torch.zeros((2, 4), dtype=torch.int64, device="meta"), r"\[2, 4\] on meta"),
        ("positions", torch.zeros((2, 4), dtype=torch.int16), "torch.int64 tensor .* torch.int16"),
        ("document_ids", torch.zeros((2, 4), dtype=torch.int32), "torch.int64 .* got torch.int32"),
        ("padding_mask", torch.zeros((2, 4), dtype=torch.uint8), "torch.bool .* got torch.uint8"),
        ("labels", torch.zeros(8, dtype=torch.int64), r"got torch.int64 \[8\]"),
    ],
)
def test_a_wrong_tensor_is_refused_by_name(name: str, tensor: torch.Tensor, message: str) -> None:
    with pytest.raises(ValueError, match=f"{name} must be .*{message}|{message}"):
        collate_rows(**{**good(), name: tensor})


def test_a_misaligned_tensor_is_refused() -> None:
    room = misaligned(np.int64, 8).reshape(2, 4)
    with pytest.raises(ValueError, match="labels must be aligned to its 8 byte items"):
        collate_rows(**{**good(), "labels": torch.from_numpy(room)})


def test_labels_need_a_shift() -> None:
    arguments = {**good(), "shift": False}
    for name in OUTPUTS:
        arguments[name] = np.zeros((2, 5), np.uint8 if name == "padding_mask" else I64)
    with pytest.raises(ValueError, match="labels must be None without shift"):
        collate_rows(**arguments)


def test_a_refused_call_writes_nothing() -> None:
    arguments = good()
    for name in OUTPUTS:
        arguments[name][:] = 55
    with pytest.raises(ValueError, match="padding_mask"):
        collate_rows(**{**arguments, "padding_mask": np.zeros((1, 1), U8)})
    assert all((arguments[name] == 55).all() for name in OUTPUTS)


@pytest.mark.parametrize("name", ["buffers", "seg_start", "labels"])
@pytest.mark.parametrize("refused", [False, True])
def test_an_array_is_given_back_after_a_call_and_after_a_refusal(name: str, refused: bool) -> None:
    arguments = good()
    value = arguments[name][0] if name == "buffers" else arguments[name]
    room = bytearray(value.tobytes())
    array = np.frombuffer(room, value.dtype).reshape(value.shape)
    arguments[name] = [array, arguments[name][1]] if name == "buffers" else array
    if refused:
        arguments["padding_mask"] = np.zeros((1, 1), U8)
        with pytest.raises(ValueError, match="padding_mask"):
            collate_rows(**arguments)
    else:
        collate_rows(**arguments)
    with pytest.raises(BufferError):
        room.append(0)
    del array, arguments
    room.append(0)  # would raise as well if the call still held the array's memory


def test_shared_buffers_give_what_a_sequence_of_them_gives() -> None:
    tokens = [np.arange(10, dtype=np.uint16), np.arange(20, 30, dtype=np.int64)]
    shared = Buffers(tokens)
    assert len(shared) == 2
    found = []
    for buffers in (tokens, shared):
        out = np.empty((2, 3), np.int64)
        bad = collate_rows(
            buffers,
            np.array([0, 1, 1], np.int32),
            np.array([2, 5, 0]),
            np.array([2, 2, 1]),
            np.array([0, 2, 3]),
            row_length=4,
            shift=True,
            pad_id=7,
            ignore_index=-1,
            vocab_size=26,
            input_ids=out,
        )
        found.append((bad, out[0].tolist()))
    assert found[0] == found[1] == ((1, 1, 26), [2, 3, 25])
    arguments = (np.array([2], np.int32), np.array([0]), np.array([1]), np.array([0, 1]))
    options = {"row_length": 4, "shift": True, "pad_id": 0, "ignore_index": -1}
    with pytest.raises(ValueError, match=r"seg_buffer must lie in \[0, 2\), got 2 at index 0"):
        collate_rows(shared, *arguments, **options)
    with pytest.raises(ValueError, match="loss_mask must be None with shared Buffers"):
        collate_rows(shared, *arguments, loss_mask=[None, None], **options)
    with pytest.raises(TypeError, match=r"buffers\[1\] must be an int8 to int64"):
        Buffers([tokens[0], np.zeros(3)])
