"""Formats of other packages: found by entry points, and named when they cannot be used."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from zephon.io.registry import FORMATS

EXAMPLE = Path(__file__).parents[2] / "examples" / "csv_format"


def install(target: Path, name: str, entry: str, code: str = "", module: str = "") -> None:
    """What installing a package of one module leaves in a folder."""
    info = target / f"{name.replace('-', '_')}-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[zephon.formats]\n{entry}\n")
    if code:
        (target / f"{module}.py").write_text(textwrap.dedent(code))


def run(target: Path, code: str) -> str:
    """Standard output of ``code`` where ``target`` is installed."""
    before = f"import sys; sys.path.insert(0, {str(target)!r})\n"
    before += "from zephon.io import Dataset\nfrom zephon.errors import *\n"
    done = subprocess.run(
        [sys.executable, "-P", "-W", "error", "-c", before + textwrap.dedent(code)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


FORMAT = """
from zephon.io import Format, InMemoryShard
class Mine(Format):
    name = "mine"
    suffixes = (".mine",)
    signatures = (b"MINE!",)
    def open(self, path):
        return InMemoryShard([{"text": path.name}])
"""


def test_the_example_is_built_installed_and_reads_files_in_a_stream(
    tmp_path: Path, tokenizer_folder: Path
) -> None:
    source = tmp_path / "source"
    source.mkdir()
    for file in ("pyproject.toml", "zephon_csv.py"):
        (source / file).write_bytes((EXAMPLE / file).read_bytes())
    target = tmp_path / "site"
    build = (
        "import sys, zipfile; from setuptools.build_meta import build_wheel\n"
        "_, here, site = sys.argv\n"  # setuptools has its own idea of sys.argv
        "zipfile.ZipFile(f'{here}/{build_wheel(here)}').extractall(site)"
    )
    subprocess.run(
        [sys.executable, "-c", build, str(tmp_path), str(target)],
        cwd=source,
        check=True,
        capture_output=True,
        timeout=120,
    )
    data = tmp_path / "data"
    data.mkdir()
    (data / "a.csv").write_text('text,url\n"one, two",u\n"line\nfeed",v\n')
    (data / "b.CSV").write_text("﻿text\nthree\n")
    (data / "bad.txt").write_text("text,url\nonly one\n")
    out = run(
        target,
        f"""
        import numpy, zephon
        dataset = Dataset.from_path("notes", {str(data)!r})
        print(dataset.format, dataset.total(), dataset.gives_text)
        print([dict(r) for r in dataset.read(numpy.arange(3)).records])
        work = zephon.StaticMixtureWorkSource([dataset], {{"notes": 1}}, shuffle_block_size=2)
        pipeline = zephon.Pipeline(work).tokenize({str(tokenizer_folder)!r}, field="text")
        print(len(list(pipeline.pack_flat(4).batch(1))) > 2)
        try:
            Dataset.from_path("notes", {str(data / "bad.txt")!r}, fmt="csv")
        except DataError as error:
            print(error)
        """,
    )
    kind, records, delivered, error = out.splitlines()
    assert kind == "csv 3 True"
    assert records == (
        "[{'text': 'one, two', 'url': 'u'}, {'text': 'line\\nfeed', 'url': 'v'}, {'text': 'three'}]"
    )
    assert delivered == "True"
    assert error.endswith("bad.txt, record 1: has 1 values for 2 columns")


def test_a_format_is_found_by_suffix_by_content_and_by_name(tmp_path: Path) -> None:
    install(tmp_path, "mine", "mine = mine_format:Mine", FORMAT, "mine_format")
    for name, content in (("a.mine", "x"), ("b.jsonl", "MINE!"), ("c", "MINE!"), ("d", "{}")):
        (tmp_path / name).write_text(content)
    out = run(
        tmp_path,
        f"""
        import pickle
        folder = {str(tmp_path)!r}
        for name in ("a.mine", "b.jsonl", "c"):
            print(pickle.loads(pickle.dumps(Dataset.from_path("d", f"{{folder}}/{{name}}"))).format)
        print(Dataset.from_path("d", f"{{folder}}/d", fmt="mine").format)
        """,
    )
    assert out.split() == ["mine"] * 4


def test_an_entry_point_may_lead_to_an_object(tmp_path: Path) -> None:
    install(tmp_path, "mine", "mine = mine_format:made", FORMAT + "made = Mine()\n", "mine_format")
    (tmp_path / "a.mine").write_text("x")
    path = str(tmp_path / "a.mine")
    assert run(tmp_path, f"print(Dataset.from_path('d', {path!r}).format)") == "mine\n"


@pytest.mark.parametrize(
    ("code", "message"),
    [
        (
            "import nothing_of_the_kind",
            "ModuleNotFoundError: No module named 'nothing_of_the_kind'",
        ),
        ("class Mine: pass", "is a Mine, expected a subclass of zephon.io.Format"),
        (FORMAT.replace('"mine"', '"other"'), "calls itself 'other': the entry point must have"),
        (FORMAT.replace('".mine"', '"MINE"'), "has the suffix 'MINE', expected lower case"),
        (FORMAT.replace("    def open(", "    def close("), "TypeError: Can't instantiate"),
    ],
)
def test_a_format_that_cannot_be_used_is_an_error_of_those_who_need_it(
    tmp_path: Path, code: str, message: str
) -> None:
    install(tmp_path, "broken-package", "mine = mine_format:Mine", code, "mine_format")
    (tmp_path / "a.jsonl").write_text('{"text": "x"}\n')
    (tmp_path / "a.mine").write_bytes(b"\0")
    out = run(
        tmp_path,
        f"""
        folder = {str(tmp_path)!r}
        print(Dataset.from_path("d", folder + "/a.jsonl").format)
        for path, fmt in ((folder + "/a.mine", None), (folder + "/a.mine", "mine")):
            try:
                Dataset.from_path("d", path, fmt=fmt)
            except ZephonError as error:
                print(type(error).__name__, error)
        """,
    )
    used, unknown, named = out.splitlines()
    assert used == "jsonl"
    assert unknown.startswith("DataError")
    assert "unknown kind of file" in unknown
    assert named.startswith("ConfigError the format 'mine' of broken-package (mine_format:Mine)")
    for text in (unknown, named):
        assert message in text


def test_a_name_that_two_packages_claim_is_an_error_that_names_both(tmp_path: Path) -> None:
    install(tmp_path, "one", "mine = mine_format:Mine", FORMAT, "mine_format")
    install(tmp_path, "two", "mine = other_format:Other")
    install(tmp_path, "three", "parquet = mine_format:Mine")
    (tmp_path / "a.jsonl").write_text('{"text": "x"}\n')
    out = run(
        tmp_path,
        f"""
        path = {str(tmp_path / "a.jsonl")!r}
        print(Dataset.from_path("d", path).format)
        try:
            Dataset.from_path("d", path, fmt="mine")
        except ConfigError as error:
            print(error)
        try:
            Dataset.from_path("d", path, fmt="mime")
        except ConfigError as error:
            print(error)
        try:
            Dataset.from_path("d", path, fmt="parquet")
        except ZephonError as error:
            print(error)
        """,
    )
    plain, twice, unknown, ours = out.splitlines()
    assert plain == "jsonl"
    assert twice == (
        "the format 'mine' is claimed by one (mine_format:Mine) and by two (other_format:Other): "
        "uninstall all but one"
    )
    assert unknown.endswith("did you mean 'mine'?")
    assert "claimed by zephon itself and by three (mine_format:Mine)" in ours


def test_the_formats_of_this_package_are_told_apart_by_name_and_suffix() -> None:
    suffixes = [suffix for one in FORMATS.values() for suffix in one.suffixes]
    assert len(suffixes) == len(set(suffixes))
    assert all(name == one.name for name, one in FORMATS.items())
