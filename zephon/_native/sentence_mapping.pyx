# cython: language_level=3, boundscheck=False, wraparound=False
"""Samples of sentences: checks around zephon/sentence_mapping.hpp.

The two functions are part of zephon._native.helpers_cpp.
"""

from libc.stddef cimport size_t
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t

import numpy as np

from zephon._native import arguments
from zephon._native.arguments import INT32_MAX, UINT64_MAX

cdef extern from "<span>" namespace "std" nogil:
    cdef cppclass sizes_view "std::span<const std::int32_t>":
        sizes_view()
        sizes_view(const int32_t*, size_t)
    cdef cppclass counts_view "std::span<const std::int64_t>":
        counts_view()
        counts_view(const int64_t*, size_t)
    cdef cppclass used_view "std::span<const std::uint8_t>":
        used_view()
        used_view(const uint8_t*, size_t)
    cdef cppclass marks_view "std::span<std::uint8_t>":
        marks_view()
        marks_view(uint8_t*, size_t)
    cdef cppclass entries32_view "std::span<std::uint32_t>":
        entries32_view(uint32_t*, size_t)
    cdef cppclass entries64_view "std::span<std::uint64_t>":
        entries64_view(uint64_t*, size_t)

cdef extern from "zephon/sentence_mapping.hpp" namespace "zephon" nogil:
    cdef cppclass SentenceRules:
        SentenceRules()
        int64_t min_sentences
        int64_t long_check_from
        int64_t cut_remaining_from
    cdef cppclass MarkedDocuments:
        MarkedDocuments()
        int64_t usable
        int64_t too_short
        int64_t too_long
        int64_t largest
        bint negative
    cdef cppclass MappedRows:
        MappedRows()
        size_t next_document
        size_t rows
    cdef cppclass TargetLength:
        TargetLength(uint32_t, uint32_t, uint32_t)
    MarkedDocuments mark_documents(counts_view, sizes_view, SentenceRules, marks_view) noexcept
    MappedRows map_sentences(
        counts_view, sizes_view, used_view, SentenceRules, TargetLength&, size_t,
        entries32_view) noexcept
    MappedRows map_sentences(
        counts_view, sizes_view, used_view, SentenceRules, TargetLength&, size_t,
        entries64_view) noexcept
    MappedRows map_blocks(
        counts_view, sizes_view, sizes_view, used_view, SentenceRules, int64_t, size_t, size_t,
        entries32_view) noexcept
    MappedRows map_blocks(
        counts_view, sizes_view, sizes_view, used_view, SentenceRules, int64_t, size_t, size_t,
        entries64_view) noexcept
    void shuffle_rows(entries32_view, size_t, uint64_t) noexcept
    void shuffle_rows(entries64_view, size_t, uint64_t) noexcept


# Rows mapped at a time: their number is known only when they are there.
cdef size_t CHUNK = 1 << 20


cdef class _Sentences:
    """Checked arguments that both mappings share, and which documents they use."""

    cdef object docs, sizes, used, dtype
    cdef readonly object epochs, most, max_length, seed, loud
    cdef const int64_t[::1] doc_data
    cdef const int32_t[::1] size_data
    cdef uint8_t[::1] used_data
    cdef size_t documents
    cdef SentenceRules rules
    cdef MarkedDocuments marked

    def __init__(
        self, docs, sizes, num_epochs, max_num_samples, max_seq_length, seed, verbose,
        min_sentences, long_check_from, cut_remaining_from,
    ):
        self.docs = arguments.integers("docs", docs, np.int64)
        self.sizes = arguments.integers("sizes", sizes, np.int32)
        self.epochs = arguments.integer("num_epochs", num_epochs, 1, INT32_MAX)
        self.most = arguments.integer("max_num_samples", max_num_samples, 0, UINT64_MAX)
        self.max_length = arguments.integer("max_seq_length", max_seq_length, 2, INT32_MAX)
        self.seed = arguments.integer("seed", seed, 1, INT32_MAX)
        self.loud = arguments.flag("verbose", verbose)
        self._check_content()
        self.dtype = np.uint32 if len(self.sizes) <= 2**32 - 1 else np.uint64
        self.documents = max(len(self.docs) - 1, 0)
        self.used = np.zeros(self.documents, np.uint8)
        self.doc_data = self.docs
        self.size_data = self.sizes
        self.used_data = self.used
        self.rules.min_sentences = min_sentences
        self.rules.long_check_from = long_check_from
        self.rules.cut_remaining_from = cut_remaining_from
        cdef counts_view docs_seen = self.docs_view()
        cdef sizes_view sizes_seen = self.sizes_view()
        cdef marks_view marks = marks_view(
            &self.used_data[0] if self.documents else NULL, self.documents)
        with nogil:
            self.marked = mark_documents(docs_seen, sizes_seen, self.rules, marks)
        if self.marked.negative:
            first, last = int(self.docs[0]), int(self.docs[len(self.docs) - 1])
            at = first + int(self.sizes[first:last].argmin())
            raise ValueError(f"sizes[{at}] is {self.sizes[at]}; a sentence has no negative size")

    def _check_content(self):
        if not len(self.docs):
            return
        falling = np.flatnonzero(self.docs[1:] < self.docs[:len(self.docs) - 1])
        if len(falling):
            at = int(falling[0])
            raise ValueError(
                f"docs must not fall, but docs[{at}] is {self.docs[at]} and docs[{at + 1}] is "
                f"{self.docs[at + 1]}"
            )
        for at in (0, len(self.docs) - 1):
            if not 0 <= self.docs[at] <= len(self.sizes):
                raise ValueError(
                    f"docs[{at}] is {self.docs[at]}, but there are {len(self.sizes)} sentences"
                )

    cdef counts_view docs_view(self):
        return counts_view(
            &self.doc_data[0] if self.doc_data.shape[0] else NULL, <size_t> self.doc_data.shape[0])

    cdef sizes_view sizes_view(self):
        return sizes_view(
            &self.size_data[0] if self.size_data.shape[0] else NULL,
            <size_t> self.size_data.shape[0])

    cdef used_view used_view(self):
        return used_view(
            <const uint8_t*> &self.used_data[0] if self.documents else NULL, self.documents)

    def room(self):
        """Rows of a new chunk, enough for any document."""
        return max(CHUNK, <size_t> self.marked.largest)

    def epochs_of(self, per_epoch):
        """Epochs that are gone through if each makes ``per_epoch`` samples."""
        if self.most == 0:
            return 0
        if per_epoch == 0:
            self.require_progress()
            return 1
        return min(self.epochs, -(-self.most // per_epoch))

    def require_progress(self):
        """Refuse to go through an endless number of epochs that make nothing."""
        if self.epochs >= INT32_MAX - 1:
            raise ValueError(
                f"no document makes a sample, so {self.epochs} epochs do not reach "
                f"max_num_samples {self.most}: {self.marked.too_short} have too few sentences, "
                f"{self.marked.too_long} a sentence of more than 512 tokens"
            )

    def finish(self, chunks, columns):
        """One shuffled array of all rows."""
        total = sum(len(chunk) for chunk in chunks) // columns
        rows = np.empty((total, columns), self.dtype)
        at = 0
        while chunks:
            chunk = chunks.pop(0)
            rows.reshape(-1)[at:at + len(chunk)] = chunk
            at += len(chunk)
        cdef uint32_t[::1] entries32
        cdef uint64_t[::1] entries64
        cdef size_t entries = rows.size
        cdef size_t width = columns
        cdef uint64_t row_seed = self.seed + 1
        if entries and self.dtype is np.uint32:
            entries32 = rows.reshape(-1)
            with nogil:
                shuffle_rows(entries32_view(&entries32[0], entries), width, row_seed)
        elif entries:
            entries64 = rows.reshape(-1)
            with nogil:
                shuffle_rows(entries64_view(&entries64[0], entries), width, row_seed)
        if self.loud:
            print(
                f"> mapped {self.documents} documents of {len(self.sizes)} sentences to {total} "
                f"samples\n   left out: {self.marked.too_short} with too few sentences, "
                f"{self.marked.too_long} with a sentence of more than 512 tokens",
                flush=True,
            )
        return rows


cdef _map_epoch(_Sentences given, TargetLength* target):
    """Entries of one epoch of build_mapping, as chunks of whole rows."""
    cdef counts_view docs = given.docs_view()
    cdef sizes_view sizes = given.sizes_view()
    cdef used_view used = given.used_view()
    cdef size_t document = 0
    cdef size_t room
    cdef MappedRows done
    cdef uint32_t[::1] out32
    cdef uint64_t[::1] out64
    chunks = []
    while document < given.documents:
        room = 3 * <size_t> given.room()
        out = np.empty(room, given.dtype)
        if given.dtype is np.uint32:
            out32 = out
            with nogil:
                done = map_sentences(
                    docs, sizes, used, given.rules, target[0], document,
                    entries32_view(&out32[0], room))
        else:
            out64 = out
            with nogil:
                done = map_sentences(
                    docs, sizes, used, given.rules, target[0], document,
                    entries64_view(&out64[0], room))
        document = done.next_document
        chunks.append(out[:3 * done.rows])
    return chunks


def build_mapping(
    docs, sizes, num_epochs, max_num_samples, max_seq_length, short_seq_prob, seed, verbose,
    min_num_sent,
):
    """Samples of consecutive sentences, as ``[samples, 3]``. See the stub."""
    fewest = arguments.integer("min_num_sent", min_num_sent, 0, INT32_MAX)
    cdef _Sentences given = _Sentences(
        docs, sizes, num_epochs, max_num_samples, max_seq_length, seed, verbose, fewest, 2, 2)
    short = arguments.probability("short_seq_prob", short_seq_prob)
    ratio = arguments.round_half_up(1 / short) if short > 1 / UINT64_MAX else 0
    if short and not 1 <= ratio <= INT32_MAX:
        raise ValueError(f"short_seq_prob must be 0 or at least {1 / INT32_MAX}, got {short}")
    cdef TargetLength* target = new TargetLength(given.max_length, ratio, given.seed)
    chunks = []
    try:
        if ratio == 0:  # no draws: every epoch is the same
            chunks = _map_epoch(given, target)
            per_epoch = sum(len(chunk) for chunk in chunks) // 3
            chunks *= given.epochs_of(per_epoch)
        else:
            samples = 0
            for _ in range(given.epochs):
                if samples >= given.most:
                    break
                epoch = _map_epoch(given, target)
                made = sum(len(chunk) for chunk in epoch) // 3
                if made == 0:  # whether a document makes a sample is not drawn
                    given.require_progress()
                    break
                samples += made
                chunks += epoch
    finally:
        del target
    return given.finish(chunks, 3)


def build_blocks_mapping(
    docs, sizes, titles_sizes, num_epochs, max_num_samples, max_seq_length, seed, verbose,
    use_one_sent_blocks,
):
    """Blocks of consecutive sentences, as ``[samples, 4]``. See the stub."""
    fewest = 1 if arguments.flag("use_one_sent_blocks", use_one_sent_blocks) else 2
    cdef _Sentences given = _Sentences(
        docs, sizes, num_epochs, max_num_samples, max_seq_length, seed, verbose, fewest, fewest,
        fewest)
    titles = arguments.integers("titles_sizes", titles_sizes, np.int32)
    if len(titles) < given.documents:
        raise ValueError(
            f"titles_sizes has {len(titles)} entries, but there are {given.documents} documents")
    cdef const int32_t[::1] title_data = titles
    cdef sizes_view title_view = sizes_view(
        &title_data[0] if title_data.shape[0] else NULL, <size_t> title_data.shape[0])
    cdef counts_view doc_view = given.docs_view()
    cdef sizes_view size_view = given.sizes_view()
    cdef used_view used = given.used_view()
    cdef int64_t max_length = given.max_length
    cdef size_t document = 0
    cdef size_t block = 0
    cdef size_t room
    cdef MappedRows done
    cdef uint32_t[::1] out32
    cdef uint64_t[::1] out64
    chunks = []
    while document < given.documents:
        room = 4 * <size_t> given.room()
        out = np.empty(room, given.dtype)
        if given.dtype is np.uint32:
            out32 = out
            with nogil:
                done = map_blocks(
                    doc_view, size_view, title_view, used, given.rules, max_length, document,
                    block, entries32_view(&out32[0], room))
        else:
            out64 = out
            with nogil:
                done = map_blocks(
                    doc_view, size_view, title_view, used, given.rules, max_length, document,
                    block, entries64_view(&out64[0], room))
        document = done.next_document
        block += done.rows
        chunks.append(out[:4 * done.rows])
    # Nothing is drawn: every epoch is the same.
    return given.finish(chunks * given.epochs_of(block), 4)
