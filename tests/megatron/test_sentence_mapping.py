import hashlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from oracles import sentence_mapping as oracle
from zephon._native import sentence_mapping
from zephon._native.helpers_cpp import build_blocks_mapping, build_mapping


@st.composite
def corpora(draw):
    counts = draw(st.lists(st.integers(0, 9), max_size=25))
    docs = [0]
    for count in counts:
        docs.append(docs[-1] + count)
    size = st.integers(0, 60) | st.sampled_from([0, 512, 513])
    sizes = draw(st.lists(size, min_size=docs[-1], max_size=docs[-1]))
    titles = draw(st.lists(st.integers(0, 90), min_size=len(counts), max_size=len(counts)))
    return docs, sizes, titles


@given(
    corpora(),
    st.integers(1, 4),
    st.integers(0, 60) | st.just(10**18),
    st.integers(2, 130),
    st.sampled_from([(0.0, 0), (0.1, 10), (0.4, 3), (0.3, 3), (1.0, 1), (1, 1)]),
    st.integers(1, 2**31 - 1),
    st.integers(0, 4),
)
def test_mapping_is_that_of_the_definition(corpus, epochs, most, max_length, short, seed, fewest):
    docs, sizes, _ = corpus
    probability, ratio = short
    rows = build_mapping(docs, sizes, epochs, most, max_length, probability, seed, False, fewest)
    assert rows.dtype == np.uint32
    assert rows.shape[1] == 3
    expected = oracle.mapping(docs, sizes, epochs, most, max_length, ratio, seed, fewest)
    assert rows.tolist() == expected


@given(
    corpora(),
    st.integers(1, 4),
    st.integers(0, 60) | st.just(10**18),
    st.integers(2, 130),
    st.integers(1, 2**31 - 1),
    st.booleans(),
)
def test_blocks_are_those_of_the_definition(corpus, epochs, most, max_length, seed, one):
    docs, sizes, titles = corpus
    rows = build_blocks_mapping(docs, sizes, titles, epochs, most, max_length, seed, False, one)
    assert rows.dtype == np.uint32
    assert rows.shape[1] == 4
    assert rows.tolist() == oracle.blocks(docs, sizes, titles, epochs, most, max_length, seed, one)


DOCS = np.concatenate([[0], np.cumsum(np.arange(200) * 5 % 7)])
SIZES = (np.arange(597) * 31 % 120 + 1).astype(np.int32)
SIZES[17] = 513
TITLES = (np.arange(200) * 3 % 9).astype(np.int32)


def digest(rows):
    return len(rows), hashlib.sha256(rows.tobytes()).hexdigest()[:16]


@pytest.mark.parametrize(
    ("args", "expected"),
    [
        ((1, 10**9, 128, 0.1, 1234, False, 2), (215, "4fc9229045136c44")),
        ((3, 10**9, 128, 0.1, 1234, False, 2), (644, "5a9da83c5f157b8c")),
        ((2, 10**9, 64, 0, 42, True, 1), (652, "770d04bdd1e87a3b")),
        ((5, 150, 128, 0.5, 7, False, 2), (226, "73c3077d4e584f1b")),
    ],
)
def test_mapping_hashes_to_the_reference_values(args, expected):
    assert digest(build_mapping(DOCS, SIZES, *args)) == expected


@pytest.mark.parametrize(
    ("args", "expected"),
    [
        ((1, 10**9, 128, 1234, False, False), (214, "b90ef42ba457b8c4")),
        ((2, 10**9, 128, 1234, False, True), (584, "3bf44aae986b2e53")),
        ((4, 100, 64, 9, False, False), (243, "af76d167966c0091")),
    ],
)
def test_blocks_hash_to_the_reference_values(args, expected):
    assert digest(build_blocks_mapping(DOCS, SIZES, TITLES, *args)) == expected


def test_many_samples_are_mapped_piece_by_piece():
    # More rows than are written at a time, and a document longer than such a piece.
    counts = np.array([3] * 200_000 + [1_200_000] + [4] * 150_000)
    docs = np.concatenate([[0], np.cumsum(counts)])
    sizes = np.full(docs[-1], 100, np.int32)
    rows = build_mapping(docs, sizes, 1, 10**9, 150, 0.0, 1, False, 1)
    rows = rows[np.argsort(rows[:, 0])]
    assert rows[0, 0] == 0
    assert rows[-1, 1] == docs[-1]
    np.testing.assert_array_equal(rows[1:, 0], rows[:-1, 1])
    drawn = build_mapping(docs, sizes, 1, 10**9, 150, 1e-9, 1, False, 1)
    np.testing.assert_array_equal(drawn[np.argsort(drawn[:, 0])], rows)
    blocks = build_blocks_mapping(docs, sizes, np.zeros(len(counts), "i4"), 1, 10**9, 150, 1,
                                  False, True)  # fmt: skip
    blocks = blocks[np.argsort(blocks[:, 3])]
    np.testing.assert_array_equal(blocks[:, 3], np.arange(len(blocks)))
    np.testing.assert_array_equal(blocks[1:, 0], blocks[:-1, 1])


@pytest.mark.parametrize("docs", [[], [0], np.array([0], np.int64)])
def test_no_document_makes_no_row(docs):
    assert build_mapping(docs, [], 1, 9, 10, 0.1, 1, False, 2).shape == (0, 3)
    assert build_blocks_mapping(docs, [], [], 1, 9, 10, 1, False, True).shape == (0, 4)


def test_epochs_that_make_nothing_end_at_once():
    assert build_mapping([0, 1], [5], 10**9, 9, 10, 0.1, 1, False, 2).shape == (0, 3)
    with pytest.raises(ValueError, match=r"no document makes a sample, .* 1 have too few sentence"):
        build_mapping([0, 1], [5], 2**31 - 2, 9, 10, 0.0, 1, False, 2)
    with pytest.raises(ValueError, match="0 have too few sentences, 1 a sentence of more than 512"):
        build_blocks_mapping([0, 1], [513], [0], 2**31 - 1, 9, 10, 1, False, True)
    assert build_mapping([0, 1], [5], 2**31 - 2, 0, 10, 0.1, 1, False, 2).shape == (0, 3)


def test_verbose_says_what_was_left_out(capsys):
    build_mapping([0, 1, 3, 5], [5, 6, 7, 513, 1], 1, 9, 10, 0.1, 1, True, 2)
    assert capsys.readouterr().out == (
        "> mapped 3 documents of 5 sentences to 1 samples\n"
        "   left out: 1 with too few sentences, 1 with a sentence of more than 512 tokens\n"
    )


def test_arguments_may_be_given_by_name():
    rows = build_mapping(
        docs=[0, 3], sizes=[5, 6, 7], num_epochs=1, max_num_samples=9, max_seq_length=10,
        short_seq_prob=np.float32(0.5), seed=1, verbose=False, min_num_sent=2,
    )  # fmt: skip
    assert rows[:, :2].tolist() == [[0, 3]]
    rows = build_blocks_mapping(
        docs=[0, 3], sizes=[5, 6, 7], titles_sizes=[1], num_epochs=1, max_num_samples=9,
        max_seq_length=10, seed=1, verbose=False, use_one_sent_blocks=False,
    )  # fmt: skip
    assert rows.tolist() == [[0, 3, 0, 0]]


def test_the_helper_module_has_these_functions():
    assert build_mapping is sentence_mapping.build_mapping
    assert build_blocks_mapping is sentence_mapping.build_blocks_mapping


SHARED = {
    "docs": [0, 3],
    "sizes": [5, 6, 7],
    "num_epochs": 1,
    "max_num_samples": 9,
    "max_seq_length": 10,
    "seed": 1,
    "verbose": False,
}
SHARED_ERRORS = [
    ({"docs": [0, 2, 1]}, ValueError, r"docs must not fall, but docs\[1\] is 2 and docs\[2\] is 1"),
    ({"docs": [0, 4]}, ValueError, r"docs\[1\] is 4, but there are 3 sentences"),
    ({"docs": [-1, 3]}, ValueError, r"docs\[0\] is -1, but there are 3 sentences"),
    ({"docs": [0.0, 3]}, TypeError, "docs must hold integers"),
    ({"sizes": [5, -6, 7]}, ValueError, r"sizes\[1\] is -6; a sentence has no negative size"),
    ({"sizes": [5, 2**31, 7]}, ValueError, r"sizes\[1\] is 2147483648, which does not fit int32"),
    ({"num_epochs": 0}, ValueError, "num_epochs must be from 1 to 2147483647, got 0"),
    ({"max_num_samples": -1}, ValueError, "max_num_samples must be from 0 to 18446744073709551615"),
    ({"max_num_samples": None}, TypeError, "max_num_samples must be an integer, got NoneType"),
    ({"max_seq_length": 1}, ValueError, "max_seq_length must be from 2 to 2147483647, got 1"),
    ({"seed": 0}, ValueError, "seed must be from 1 to 2147483647, got 0"),
    ({"verbose": None}, TypeError, "verbose must be a bool"),
]


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        *SHARED_ERRORS,
        ({"short_seq_prob": 1.1}, ValueError, "short_seq_prob must be from 0 to 1, got 1.1"),
        ({"short_seq_prob": float("nan")}, ValueError, "short_seq_prob must be from 0 to 1"),
        ({"short_seq_prob": 1e-10}, ValueError, "short_seq_prob must be 0 or at least 4.6"),
        ({"short_seq_prob": 5e-324}, ValueError, "short_seq_prob must be 0 or at least 4.6"),
        ({"short_seq_prob": "0.1"}, TypeError, "short_seq_prob must be a number, got str"),
        ({"short_seq_prob": None}, TypeError, "short_seq_prob must be a number, got NoneType"),
        ({"min_num_sent": -1}, ValueError, "min_num_sent must be from 0"),
    ],
)
def test_argument_of_mapping_that_cannot_work_is_named(change, error, message):
    with pytest.raises(error, match=message):
        build_mapping(**{**SHARED, "short_seq_prob": 0.1, "min_num_sent": 2, **change})


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        *SHARED_ERRORS,
        ({"titles_sizes": []}, ValueError, "titles_sizes has 0 entries, but there are 1 documents"),
        ({"titles_sizes": [1.5]}, TypeError, "titles_sizes must hold integers"),
        ({"use_one_sent_blocks": 2}, ValueError, "use_one_sent_blocks must be a bool, 0 or 1"),
    ],
)
def test_argument_of_blocks_that_cannot_work_is_named(change, error, message):
    with pytest.raises(error, match=message):
        build_blocks_mapping(
            **{**SHARED, "titles_sizes": [1], "use_one_sent_blocks": False, **change}
        )
