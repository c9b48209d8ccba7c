"""States that earlier versions have saved go on exactly (docs/packaging.md says which)."""

import json
from itertools import islice
from pathlib import Path

import pytest

from zephon import selftest

FOLDER = Path(__file__).parent / "data" / "states"
KEPT = sorted(path.stem for path in FOLDER.glob("*.state"))


def test_there_are_kept_states_of_every_algorithm():
    assert {name.split("-", 1)[1] for name in KEPT} >= {
        "wrap",
        "first_fit",
        "best_fit",
        "best_fit_wrap",
    }


@pytest.mark.parametrize("name", KEPT)
def test_a_kept_state_goes_on_with_the_batches_that_followed_it(name):
    told = json.loads((FOLDER / f"{name}.json").read_text())
    stream = selftest._pipeline(told["algorithm"])
    stream.restore((FOLDER / f"{name}.state").read_bytes())
    found = [selftest._digest(selftest._arrays(batch)) for batch in islice(stream, 4)]
    stream.close()
    assert found == told["following"]
