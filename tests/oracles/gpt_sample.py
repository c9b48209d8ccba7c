"""A GPT sample, straight from its meaning."""


def gpt_sample(
    text,
    sequence_length,
    *,
    pad=None,
    eod=None,
    mask_eod=False,
    restart=False,
):
    """Lists of one sample whose real tokens are ``text``: at most one more than its length.

    Returns inputs, labels, loss mask, positions and ends of documents.
    """
    inputs, labels, loss, positions, ends = [], [], [], [], []
    position = 0
    for at in range(sequence_length):
        real = at < len(text)
        has_label = at + 1 < len(text)
        token = text[at] if real else 0
        label = text[at + 1] if has_label else 0
        is_end = real and eod is not None and token == eod
        counts = has_label and label != pad and not (mask_eod and is_end)
        inputs.append(0 if token == pad else token)
        labels.append(0 if label == pad else label)
        loss.append(1.0 if counts else 0.0)
        positions.append(position)
        ends.append(1 if is_end else 0)
        position = 0 if restart and is_end else position + 1
    return inputs, labels, loss, positions, ends
