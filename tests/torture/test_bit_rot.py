"""One flipped byte anywhere in the data directory is noticed at the next start, or changes nothing; never a count."""

import pytest

from hubbub.collector.tokens import new_token
from tests.collector.storage.damage import fill, judge
from tests.collector.storage.kit import Place

COPY_REFUSED = "noticed, neither backed up nor restored"


@pytest.fixture
def place(tmp_path):
    found = Place(tmp_path / "data")
    fill(found, batches=60)
    new_token(found.path / "tokens", "read", "analyst")
    return found


def test_60_flips_of_the_checkpoint_are_noticed_or_harmless(place, tmp_path):
    kinds, silent = judge(place.path, [place.path / "store.sqlite"], 60, 1, tmp_path / "work", place.toml, copies=True)
    assert silent == []
    assert kinds["store.sqlite", "noticed"] >= 30  # most of the file is counts and ids
    assert kinds["store.sqlite", COPY_REFUSED] == kinds["store.sqlite", "noticed"]
    assert kinds["store.sqlite", "noticed"] + kinds["store.sqlite", "harmless"] == 60


def test_flips_of_the_log_after_a_crash_are_noticed_or_said(tmp_path):
    """What no checkpoint has is in the log alone: damage before its last group is refused, in the last one told."""
    place = Place(tmp_path / "data")
    fill(place, batches=60, clean=False)
    kinds, silent = judge(place.path, sorted(place.path.glob("log/*.log")), 60, 2, tmp_path / "work", place.toml)
    assert silent == []
    assert kinds["log", "noticed"] >= 10
    assert all(how.startswith(("noticed", "harmless", "last group")) for _, how in kinds), kinds


@pytest.mark.proof
@pytest.mark.parametrize("clean", [True, False], ids=["stopped", "crashed"])
def test_400_flips_over_every_file_are_noticed_or_harmless(tmp_path, clean, figure):
    place = Place(tmp_path / "data")
    fill(place, batches=60, clean=clean)
    new_token(place.path / "tokens", "read", "analyst")
    files = [path for path in sorted(place.path.rglob("*")) if path.is_file() and path.stat().st_size]
    files += [place.path / "store.sqlite"] * len(files)  # half of all flips: this is where the counts are
    kinds, silent = judge(place.path, files, 400, 3, tmp_path / "work", place.toml, copies=True)
    assert silent == []
    assert all(how.startswith(("noticed", "harmless", "last group")) for _, how in kinds), kinds
    listed = "; ".join(f"{name} {how}: {number}" for (name, how), number in sorted(kinds.items()))
    figure(
        f"bit rot ({'after a clean stop' if clean else 'after a crash'})", f"400 flipped bytes, none silent. {listed}"
    )
