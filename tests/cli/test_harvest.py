import pytest

from small_corpora import TOPICS
from zephon.cli import harvest
from zephon.errors import DataError


def test_source_files_come_in_the_order_of_their_paths_and_leave_out_what_is_not_text(library):
    paths = [file.path for file in harvest.source_files(library)]
    assert paths == sorted(paths)
    assert "pkg/mod01.py" in paths
    assert {"silent.py", "broken.py", "escape.py"} <= set(paths)
    assert not {"blank.py", "latin.py"} & set(paths)


def test_tests_and_installed_packages_are_not_the_library(library):
    assert not [f.path for f in harvest.source_files(library) if "not_ours" in f.path]


def test_a_folder_below_one_named_like_a_left_out_one_is_still_read(tmp_path):
    root = tmp_path / "test"
    root.mkdir()
    (root / "a.py").write_text("x = 1\n")
    assert [file.path for file in harvest.source_files(root)] == ["a.py"]


def test_a_byte_order_mark_is_not_part_of_the_text(tmp_path):
    (tmp_path / "a.py").write_bytes(b"\xef\xbb\xbfx = 1\n")
    assert harvest.source_files(tmp_path)[0].text == "x = 1\n"


def test_a_library_without_sources_is_an_error_that_names_the_folder(tmp_path):
    with pytest.raises(DataError, match=r"no Python source file here.*standard library's sources"):
        harvest.source_files(tmp_path)


def test_prose_is_one_document_for_each_module_with_docstrings_then_the_topics(library):
    files = harvest.source_files(library)
    prose = list(harvest.prose_documents(files, TOPICS))
    assert len(prose) == 12 + 1 + 1  # modules, escape.py, the topic that is not empty
    assert prose[-1] == "The while statement\n\nRepeats a block.\n"
    assert prose[-2].startswith("pkg/mod11.py\n\nModule mod11")
    assert prose[0].startswith("escape.py")


def test_docstrings_are_dedented_and_in_the_order_of_a_walk_through_the_module(library):
    files = [f for f in harvest.source_files(library) if f.path == "mod03.py"]
    (text,) = harvest.prose_documents(files, {})
    assert text == (
        "mod03.py\n\nModule mod03: does mod03 things.\n\nIndented, as docstrings are.\n\n"
        "Holds the number 3 — and an umlaut: ü.\n\nReturn 3.\n"
    )


def test_the_running_python_has_a_library_and_topics():
    assert (harvest.standard_library() / "os.py").is_file()
    assert "while" in harvest.pydoc_topics()
