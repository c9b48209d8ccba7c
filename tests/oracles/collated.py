"""Collated text as the loader's kernel makes it, one token after the other."""

import torch
from hypothesis import strategies as st

PAD, IGNORED = 0, -100


def collate(rows, length):
    """Tensors of rows given as lists of document lengths, each row padded to ``length`` places."""
    fields = {"input_ids": [], "labels": [], "position_ids": [], "document_ids": []}
    token = 100
    for lengths in rows:
        tokens, positions, ids = [], [], []
        for number, tokens_of_document in enumerate(lengths, start=1):
            for position in range(tokens_of_document):
                tokens.append(token)
                positions.append(position)
                ids.append(number)
                token += 1
        labels = [*tokens[1:], IGNORED]
        missing = length - len(tokens)
        fields["input_ids"].append(tokens + [PAD] * missing)
        fields["labels"].append((labels + [IGNORED] * missing)[:length])
        fields["position_ids"].append(positions + list(range(missing)))
        fields["document_ids"].append(ids + [0] * missing)
    tensors = {name: torch.tensor(values) for name, values in fields.items()}
    tensors["padding_mask"] = tensors["document_ids"] == 0
    return tensors


@st.composite
def row_lengths(draw, empty_rows=False):
    """Document lengths of 1 to 4 rows, and the length that the rows are padded to."""
    rows = draw(
        st.lists(
            st.lists(st.integers(1, 5), min_size=0 if empty_rows else 1, max_size=4),
            min_size=1,
            max_size=4,
        )
    )
    longest = max(1, *(sum(lengths) for lengths in rows), 1)
    return rows, longest + draw(st.integers(0, 4))
