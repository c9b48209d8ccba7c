import pytest

from zephon.cli.failure import explain, require
from zephon.errors import DataError, ZephonError


def test_an_error_of_ours_is_its_message_in_one_paragraph():
    text = explain(DataError("is damaged " * 20, file="a.jsonl", record=3))
    assert text.startswith("zephon: error: a.jsonl, record 3: is damaged")
    assert max(map(len, text.splitlines())) <= 100
    assert "\n\n" not in text


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (FileNotFoundError(2, "No such file or directory", "x.bin"), "x.bin: No such file"),
        (OSError(18, "Cross-device link", "a", None, "b"), "a -> b: Cross-device link"),
        (OSError(28, "No space left on device"), "error: No space left on device"),
        (OSError("odd"), "error: odd"),
        (TimeoutError(), "error: TimeoutError"),
    ],
)
def test_an_error_of_the_system_names_its_files(error, text):
    assert text in explain(error)


@pytest.mark.parametrize("module", ["typer", "rich", "tokenizers", "matplotlib", "orjson"])
def test_a_missing_package_is_one_line_that_names_the_extra(module):
    text = explain(ModuleNotFoundError(f"No module named {module!r}", name=module))
    assert "\n" not in text
    assert f"the package {module}," in text
    assert "pip install './zephon[" in text


def test_any_other_error_is_called_a_fault_of_ours_and_points_to_debug():
    assert "unexpected KeyError: 'x'. This is a fault of zephon" in explain(KeyError("x"))
    assert "--debug" in explain(ModuleNotFoundError("No module named 'os2'", name="os2"))


def test_requiring_what_is_there_does_nothing():
    require("json", "rich")


def test_requiring_a_package_that_lacks_another_shows_the_other(tmp_path, monkeypatch):
    (tmp_path / "tokenizers_like.py").write_text("import not_here_at_all\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ModuleNotFoundError, match="not_here_at_all"):
        require("tokenizers_like")


def test_requiring_what_is_missing_raises_an_error_of_ours(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "tokenizers", None)
    with pytest.raises(ZephonError, match=r"tokenizers, of the extra 'tokenizers'"):
        require("tokenizers")
