import pytest

from demo_batches import BOS, Work, batch
from zephon.cli.tally import Tally, document_starts


def test_documents_are_counted_where_they_begin_also_in_the_last_label():
    rows = batch([0, 5, 5, 0, 5], [5, 5, 0, 5, 0])
    assert document_starts(rows, BOS).tolist() == [
        [True, False, False, True, False],
        [False, False, True, False, True],
    ]


def test_counts_add_up_over_batches():
    tally = Tally(bos=BOS)
    tally.add(batch([0, 5, 5, 0, 5], [5, 5, 0, 5, 0]), "a", {"code": 6, "prose": 2})
    tally.add(batch([5, 5, 5, 5, 5], [0, 5, 5, 5, 5], padding=2), "b", {"code": 8, "prose": 4})
    assert tally.digests == ["a", "b"]
    assert tally.started == [4, 5]
    assert tally.tokens == [{"code": 6, "prose": 2}, {"code": 8, "prose": 4}]
    assert tally.rows == 4
    assert tally.cut_rows == 2
    assert tally.segments == 2 + 2 + 1 + 1
    assert tally.filled == [1.0, 0.5]
    assert tally.efficiency == pytest.approx(0.75)


def test_documents_by_source_follow_from_the_order_of_the_work_source():
    tally = Tally(bos=BOS)
    tally.add(batch([0, 5, 0], [0, 5, 5]), "a", {})
    tally.add(batch([5, 5, 5], [5, 5, 5]), "b", {})
    tally.add(batch([0, 0, 5], [5, 5, 5]), "c", {})
    documents = tally.documents(Work([0, 1, 0, 0, 1, 1]))
    assert documents == {"code": [2, 2, 3], "prose": [1, 1, 2]}


def test_tokens_are_copied_from_a_mapping_that_goes_on_changing():
    tally, live = Tally(bos=BOS), {"code": 1}
    tally.add(batch([0, 5, 5]), "a", live)
    live["code"] = 2
    assert tally.tokens == [{"code": 1}]
