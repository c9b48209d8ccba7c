"""The index of a GPT dataset, straight from its meaning."""

import numpy as np

from oracles.sample_index import sample_index


def epochs_needed(tokens_per_epoch, num_samples, sequence_length, extra):
    """The smallest number of epochs whose tokens suffice."""
    epochs = 1
    while num_samples is not None and epochs * tokens_per_epoch < (
        num_samples * sequence_length + extra
    ):
        epochs += 1
    return epochs


def gpt_index(sizes, documents, num_samples, sequence_length, seed, extra=1, drop_last=True):
    """Lists: document index, sample index, shuffle index."""
    tokens = sum(sizes[document] for document in documents)
    epochs = epochs_needed(tokens, num_samples, sequence_length, extra)
    before_last = ((epochs - 1) * tokens - extra) // sequence_length
    per_epoch = (tokens - extra) // sequence_length
    apart = epochs > 1 and num_samples - before_last < int(0.80 * per_epoch)
    random = np.random.RandomState(seed)

    def shuffled(values):
        array = np.array(values, np.int64)
        random.shuffle(array)
        return array.tolist()

    if apart:
        order = shuffled(documents * (epochs - 1)) + shuffled(documents)
    else:
        order = shuffled(documents * epochs)
    rows = sample_index(sizes, order, sequence_length, epochs, tokens, drop_last, extra)
    samples = list(range(len(rows) - 1))
    if apart:
        shuffle = shuffled(samples[:before_last]) + shuffled(samples[before_last:])
    else:
        shuffle = shuffled(samples)
    return order, rows, shuffle
