"""The sample index, straight from its meaning."""


def exact_sample_count(tokens, sequence_length, extra, drop_last):
    whole, rest = divmod(tokens - extra, sequence_length)
    return whole if drop_last or rest == 0 else whole + 1


def sample_index(sizes, documents, sequence_length, epochs, tokens_per_epoch, drop_last, extra):
    """Rows of (position in documents, offset), one more than there are samples."""
    samples = exact_sample_count(epochs * tokens_per_epoch, sequence_length, extra, drop_last)
    starts = []  # tokens before each document
    ends = []
    total = 0
    for document in documents:
        starts.append(total)
        total += sizes[document]
        ends.append(total)
    assert epochs * tokens_per_epoch <= total

    rows = [[0, 0]]
    position = 0
    for sample in range(1, samples + 1):
        token = sample * sequence_length
        while position < len(ends) and ends[position] < token + extra:
            position += 1
        if position < len(ends):
            rows.append([position, token - starts[position]])
        else:
            assert not drop_last
            assert sample == samples
            rows.append(end_of_documents(sizes, documents, extra))
    return rows


def end_of_documents(sizes, documents, extra):
    last = len(documents) - 1
    if extra:
        while sizes[documents[last]] == 0:
            last -= 1
    return [last, sizes[documents[last]] - extra]
