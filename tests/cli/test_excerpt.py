from demo_batches import BOS, batch
from zephon.cli.excerpt import excerpt


def decode(ids):
    return " ".join(map(str, ids))


def test_the_row_that_is_shown_is_the_first_with_a_change_of_source():
    rows = batch([0, 11, 0, 12, 5], [13, 0, 14, 15, 5])
    shown = excerpt(rows, BOS, ["code", "code", "prose"], decode)
    assert shown.row == 1
    (boundary,) = shown.boundaries
    assert (boundary.ended, boundary.begun) == ("code", "prose")
    assert (boundary.token, boundary.position) == (1, 0)
    assert (boundary.before, boundary.after) == ("13", "0 14 15")


def test_without_a_change_of_source_any_boundary_is_shown():
    shown = excerpt(batch([0, 11, 0, 12, 5]), BOS, ["code", "code"], decode)
    assert shown.row == 0
    assert [(b.ended, b.begun) for b in shown.boundaries] == [("code", "code")]


def test_the_boundaries_begin_at_the_change_and_are_no_more_than_asked():
    rows = batch([0, 1, 0, 2, 0, 3, 0, 4, 5])
    sources = ["code", "code", "prose", "code"]
    shown = excerpt(rows, BOS, sources, decode)
    assert [boundary.token for boundary in shown.boundaries] == [4, 6]
    assert len(excerpt(rows, BOS, sources, decode, most=1).boundaries) == 1


def test_a_batch_without_a_boundary_inside_a_row_has_no_excerpt():
    assert excerpt(batch([0, 1, 2], [3, 4, 0]), BOS, ["code", "code"], decode) is None


def test_only_a_few_lines_on_each_side_are_shown():
    rows = batch([0, 1, 0, 2, 5])
    text = "\n".join(map(str, range(9)))
    (boundary,) = excerpt(rows, BOS, ["code", "prose"], lambda ids: text).boundaries
    assert boundary.before == "5\n6\n7\n8"
    assert boundary.after == "0\n1\n2\n3"
