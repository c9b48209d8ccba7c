"""What a framework makes of a batch in "thd" representation before it calls the model."""

import torch

UNUSED = -1000


def consume(batch):
    """One flat stream of ``B * S`` places; every value a plain list, number or untouched field."""
    read = ("input_ids", "labels", "position_ids", "seq_lens", "seq_lens_padded")
    rows, length = batch["input_ids"].shape
    lens = [n for row in batch["seq_lens"].tolist() for n in row if n != UNUSED]
    slots = [n for row in batch["seq_lens_padded"].tolist() for n in row if n != UNUSED]
    cu_seqlens, cu_seqlens_padded = cumulative(lens), cumulative(slots)

    padding_mask = [True] * (rows * length)
    for start, real in zip(cu_seqlens_padded, lens, strict=False):
        padding_mask[start : start + real] = [False] * real

    positions = batch["position_ids"]
    out = {name: value for name, value in batch.items() if name not in read}
    out["input_ids"] = batch["input_ids"].flatten().tolist()
    out["labels"] = batch["labels"].flatten().tolist()
    if positions.ndim == 3:
        out["position_ids"] = [[axis.flatten().tolist()] for axis in positions]
    else:
        out["position_ids"] = positions.flatten().tolist()
    out["padding_mask"] = padding_mask
    out["max_seqlen"] = torch.tensor(max(slots), dtype=torch.int32)
    if cu_seqlens[:-1] == cu_seqlens_padded[:-1]:
        cu_seqlens[-1] = rows * length
    if cu_seqlens != cu_seqlens_padded:
        out["cu_seqlens_padded"] = cu_seqlens_padded
    out["cu_seqlens"] = cu_seqlens
    return out


def cumulative(lengths):
    ends = [0]
    for length in lengths:
        ends.append(ends[-1] + length)
    return ends
