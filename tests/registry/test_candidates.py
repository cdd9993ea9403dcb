"""What a replay can draw, kept up to date, is what reading everything again gives; whatever is written in between."""

import random

import pytest
from registry_samples import plays, source

from spade_registry import NewEnvironment, Registry, Sampler
from spade_registry.candidates import CandidateCache


def same(kept, fresh):
    assert kept.ids == fresh.ids
    assert kept.skills == fresh.skills
    assert kept.regret.tolist() == fresh.regret.tolist()
    assert kept.win_rate.tolist() == fresh.win_rate.tolist()


def change(registry, run, step, rng, ids):
    """One thing that a run may do."""
    what = rng.choice(("design", "play", "play", "cut", "retire", "roll back", "elsewhere"))
    if what == "design" or not ids:
        # Few numbers, so that some are near-duplicates of each other under other names.
        new = [NewEnvironment(source(f"Number{step}x{i}", rng.randrange(6)), hint="h") for i in range(3)]
        ids += registry.commit_round(run, step, environments=new)
    elif what == "play":
        chosen = rng.sample(ids, min(len(ids), 3))
        outcomes = ["".join(rng.choices("wlc", k=4)) for _ in range(2)]
        registry.commit_round(run, step, plays=[play for one in chosen for play in plays(one, run, step, *outcomes)])
    elif what == "cut":
        registry.commit_round(run, step, plays=plays(rng.choice(ids), run, step, "cccc"))
    elif what == "retire":
        registry.retire(ids.pop(rng.randrange(len(ids))), "test")
    elif what == "roll back":
        registry.rollback_run(run, step - 3)
    else:
        with Registry.open(registry.path) as other:
            other.commit_round(run, step, plays=plays(rng.choice(ids), run, step, "wl", "ww"))


@pytest.mark.parametrize("seed", range(5))
def test_kept_candidates_are_those_of_a_fresh_reading(registry, seed):
    rng, ids = random.Random(seed), []
    run = registry.start_run("test", {}, None)
    sampler = registry.replay(seed=seed)
    for step in range(1, 40):
        change(registry, run, step, rng, ids)
        kept = registry._candidates.load(registry.connection())
        same(kept, CandidateCache().load(registry.connection()))
        fresh = Sampler(lambda kept=kept: kept)
        fresh.load_state_dict(sampler.state_dict())
        assert sampler.sample(2) == fresh.sample(2), "a resumed run draws what an uninterrupted one draws"


def test_nothing_written_gives_the_same_object(registry):
    run = registry.start_run("test", {}, None)
    key = registry.add(source(), hint="h")
    registry.commit_round(run, 1, plays=plays(key, run, 1, "wl", "ww"))
    load = registry._candidates.load
    assert load(registry.connection()) is load(registry.connection())
