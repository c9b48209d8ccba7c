import torch

from demo_batches import batch
from zephon.cli.stream import digest


def test_equal_batches_have_equal_digests_whatever_the_order_of_their_names():
    rows = batch([0, 1, 2, 3], [4, 0, 5, 6])
    again = dict(reversed(batch([0, 1, 2, 3], [4, 0, 5, 6]).items()))
    assert digest(rows) == digest(again)
    assert len(digest(rows)) == 64


def test_every_tensor_and_every_element_counts():
    rows = batch([0, 1, 2, 3], [4, 0, 5, 6])
    plain = digest(rows)
    for name, tensor in rows.items():
        changed = tensor.clone()
        changed[-1, -1] = ~changed[-1, -1]
        assert digest(rows | {name: changed}) != plain


def test_shape_and_dtype_count():
    flat = {"input_ids": torch.zeros(8, dtype=torch.int64)}
    assert digest(flat) != digest({"input_ids": flat["input_ids"].view(2, 4)})
    assert digest(flat) != digest({"input_ids": torch.zeros(16, dtype=torch.int32)})


def test_a_view_has_the_digest_of_its_copy():
    wide = torch.arange(12).view(3, 4)[:, 1:3]
    assert digest({"input_ids": wide}) == digest({"input_ids": wide.clone()})
