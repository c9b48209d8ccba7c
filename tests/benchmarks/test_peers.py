"""Every peer is pinned, and says what it does."""

import importlib.util
import re
import sys
from pathlib import Path

import pytest

PEERS = Path(__file__).parents[2] / "benchmarks" / "peers"
GROUPS = PEERS.parent / "groups"
sys.path.append(str(PEERS.parent))

spec = importlib.util.spec_from_file_location("groups_peers", GROUPS / "peers.py")
peers = importlib.util.module_from_spec(spec)
spec.loader.exec_module(peers)

PIN = re.compile(r"[A-Za-z0-9._-]+==[A-Za-z0-9.+!-]+")


def test_every_script_takes_part():
    assert {path.stem for path in PEERS.glob("*.py")} - {"common"} == set(peers.ORDER)


@pytest.mark.parametrize("name", peers.ORDER)
def test_a_peer_says_what_it_emits_and_whether_it_blends_and_resumes(name):
    told = peers.about(name)
    assert set(told) == {
        "name", "package", "variants", "emits", "blended", "shuffled", "resumable",
    }  # fmt: skip
    assert told["variants"]


@pytest.mark.parametrize("path", sorted(PEERS.glob("*.txt")), ids=lambda path: path.stem)
def test_everything_in_an_environment_is_pinned(path):
    pins = path.read_text().splitlines()
    assert pins
    assert all(map(PIN.fullmatch, pins))
    if path.stem != "shared":
        package = peers.about(path.stem)["package"]
        assert [pin for pin in pins if pin.startswith(f"{package}==")]


def test_no_environment_brings_cuda():
    for path in PEERS.glob("*.txt"):
        assert not re.search(r"^(nvidia|cuda|triton)", path.read_text(), re.MULTILINE), path
        if path.stem != "shared":
            assert not re.search(r"^torch==", path.read_text(), re.MULTILINE), path
