"""Samples of sentences, straight from their meaning. The generators are numpy's."""

import itertools

import numpy as np

LONGEST_SENTENCE = 512


class Mersenne32:
    """The sequence of std::mt19937, which numpy's legacy generator shares."""

    def __init__(self, seed):
        self.random = np.random.RandomState(seed)

    def next(self):
        return int(self.random.randint(0, 2**32, dtype=np.uint64))


class Mersenne64:
    """The 64-bit Mersenne Twister, as C++ defines std::mt19937_64."""

    WORDS, SHIFT = 312, 156
    MASK = 2**64 - 1

    def __init__(self, seed):
        self.state = [seed]
        for at in range(1, self.WORDS):
            before = self.state[-1]
            self.state.append((6364136223846793005 * (before ^ before >> 62) + at) & self.MASK)
        self.at = self.WORDS

    def next(self):
        if self.at == self.WORDS:
            for at in range(self.WORDS):
                mixed = self.state[at] & ~0x7FFFFFFF & self.MASK
                mixed |= self.state[(at + 1) % self.WORDS] & 0x7FFFFFFF
                twisted = mixed >> 1 ^ (0xB5026F5AA96619E9 if mixed & 1 else 0)
                self.state[at] = self.state[(at + self.SHIFT) % self.WORDS] ^ twisted
            self.at = 0
        word = self.state[self.at]
        self.at += 1
        word ^= word >> 29 & 0x5555555555555555
        word ^= word << 17 & 0x71D67FFFEDA60000
        word ^= word << 37 & 0xFFF7EEE000000000
        return word ^ word >> 43


def mapping(docs, sizes, epochs, most, max_length, ratio, seed, fewest):
    draws = Mersenne32(seed)

    def target():
        if ratio == 0:
            return max_length
        number = draws.next()
        return 2 + number % (max_length - 1) if number % ratio == 0 else max_length

    rows = []
    for _ in range(epochs):
        if len(rows) >= most:
            break
        for first, last in itertools.pairwise(docs):
            lengths = sizes[first:last]
            too_long = len(lengths) > 1 and max(lengths) > LONGEST_SENTENCE
            if len(lengths) < fewest or too_long:
                continue
            begin, length, wanted = first, 0, target()
            for sentence in range(first, last):
                length += sizes[sentence]
                left = last - sentence - 1
                enough = sentence + 1 - begin >= fewest
                if (length >= wanted and left > 1 and enough) or left == 0:
                    rows.append([begin, sentence + 1, wanted])
                    begin, length, wanted = sentence + 1, 0, target()
    return shuffled(rows, seed)


def blocks(docs, sizes, titles, epochs, most, max_length, seed, one_sentence):
    fewest = 1 if one_sentence else 2
    rows = []
    for _ in range(epochs):
        if len(rows) >= most:
            break
        block = 0
        for document, (first, last) in enumerate(itertools.pairwise(docs)):
            lengths = sizes[first:last]
            if len(lengths) < fewest or max(lengths) > LONGEST_SENTENCE:
                continue
            wanted = max_length - titles[document]
            begin, length = first, 0
            for sentence in range(first, last):
                length += sizes[sentence]
                left = last - sentence - 1
                enough = left >= fewest and sentence + 1 - begin >= fewest
                if (length >= wanted and enough) or left == 0:
                    rows.append([begin, sentence + 1, document, block])
                    begin, length, block = sentence + 1, 0, block + 1
    return shuffled(rows, seed)


def shuffled(rows, seed):
    draws = Mersenne64(seed + 1)
    for at in range(len(rows) - 1, 0, -1):
        other = draws.next() % (at + 1)
        rows[at], rows[other] = rows[other], rows[at]
    return rows
