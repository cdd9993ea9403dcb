"""As Gymnasium environments: single and vector, found by id, checked by Gymnasium's own checker."""

import json
import random
import subprocess
import sys
import warnings

import gymnasium
import numpy as np
import pytest
from env_samples import GUESS, failing
from gymnasium.utils.env_checker import check_env

import spade_envs
from spade_envs.env import SpadeEnv
from spade_envs.sources import Record
from spade_envs.starters import records
from spade_envs.vector import SpadeVectorEnv

RECORD = Record(GUESS, max_turns=6, hint="SECRET-HINT", skill="Logical Deduction")


@pytest.mark.parametrize("record", records(), ids=lambda record: record.program.name)
def test_gymnasiums_checker_is_content_with_every_starter(record):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_env(gymnasium.make(record.program.id).unwrapped)


def test_it_is_made_by_id_prefix_and_name_with_and_without_the_import():
    key = records()[0].program.id
    assert gymnasium.make(key).spec.id == key
    assert gymnasium.make("spade/" + key.split("-")[1]).unwrapped.program.id == key
    script = f"import gymnasium; print(gymnasium.make('spade_envs:{key}').reset(seed=3)[0])"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.rstrip("\n") == gymnasium.make(key).reset(seed=3)[0].rstrip("\n")
    assert json.loads(gymnasium.make(key).spec.to_json())["id"] == key


def test_an_unknown_id_names_where_it_looked_and_near_matches():
    with pytest.raises(gymnasium.error.NameNotFound, match=r"(?s)LiarsIn.*starters.*spade/LiarsInn"):
        gymnasium.make("spade/LiarsIn-000000000000-v0")
    assert "spade/LiarsIn" not in gymnasium.registry
    assert records()[0].program.id in gymnasium.registry
    assert "CartPole-v1" in gymnasium.registry


def test_an_episode_from_reset_to_end():
    env = SpadeEnv(RECORD)
    observation, info = env.reset(seed=4)
    assert info == {"turn": 0, "seed": 4}
    assert observation in env.observation_space
    steps = [env.step("nothing") for _ in range(6)]
    assert [step[2:4] for step in steps] == [(False, False)] * 5 + [(False, True)]
    assert steps[-1][4]["outcome"] == "lost"
    assert steps[-1][4]["return"] == 0.0, "progress is not summed into the return"
    env.reset(seed=4)
    assert GUESS.source.count("randint(0, 9)") == 1
    digit = random.Random(4).randint(0, 9)
    assert env.step(f"\\boxed{{{digit}}}")[1:4] == (1.0, True, False)
    with pytest.raises(TypeError, match="must be a str"):
        env.step(3)


def test_without_a_seed_one_is_drawn_and_said_and_gives_the_same_episode():
    env = SpadeEnv(RECORD)
    env.reset(seed=1)
    observation, info = env.reset()
    assert env.reset(seed=info["seed"])[0] == observation


@pytest.mark.parametrize(
    ("method", "code", "outcome"),
    [("step", "raise ValueError('x')", "faulty"), ("reset", "raise ValueError('x')", "faulty")],
)
def test_a_program_that_fails_ends_its_episode_and_says_so(method, code, outcome):
    env = SpadeEnv(failing(method, code))
    env.reset(seed=13)
    observation, reward, terminated, truncated, info = env.step("13")
    assert (observation, reward, terminated, truncated, info["outcome"]) == ("", 0.0, False, True, outcome)
    assert "ValueError: x" in info["fault"]
    assert env.reset(seed=1)[0] == "ready"


def test_the_hint_appears_only_when_it_is_asked_for():
    shown = SpadeEnv(RECORD, hint=True).reset(seed=1)[1]
    assert shown["hint"] == "SECRET-HINT"
    env = SpadeEnv(RECORD)
    seen = [repr(env), str(env.reset(seed=1)), str(env.step("x")), str(env.spec), str(vars(env.observation_space))]
    made = gymnasium.make(records()[0].program.id)
    seen += [made.spec.to_json(), repr(made), str(made.reset(seed=0)), str(made.metadata)]
    hint = records()[0].hint
    assert not [text for text in seen if "SECRET-HINT" in text or hint in text or "def reset" in text]


def trajectories(envs, seeds, turns):
    """Trajectories of single environments under the vector environment's rule: the step after an end resets."""
    found = []
    for env, seed in zip(envs, seeds, strict=True):
        lines, ended = [env.reset(seed=seed)[0]], False
        for turn in range(turns):
            if ended:
                lines.append((env.reset()[0], 0.0, False, False))
                ended = False
            else:
                lines.append(env.step(f"\\boxed{{{turn % 10}}}")[:4])
                ended = lines[-1][2] or lines[-1][3]
        found.append(lines)
    return found


def test_sixty_four_in_a_vector_go_as_sixty_four_alone():
    vector = SpadeVectorEnv(RECORD, num_envs=64)
    observations, infos = vector.reset(seed=100)
    assert infos["seed"].tolist() == list(range(100, 164))
    lines = [[observation] for observation in observations]
    for turn in range(20):
        observations, rewards, terminations, truncations, _ = vector.step([f"\\boxed{{{turn % 10}}}"] * 64)
        for i in range(64):
            lines[i].append((observations[i], float(rewards[i]), bool(terminations[i]), bool(truncations[i])))
    singles = trajectories([SpadeEnv(RECORD) for _ in range(64)], range(100, 164), 20)
    assert lines == singles


def test_make_vec_gives_our_vector_environment():
    key = records()[0].program.id
    vector = gymnasium.make_vec(key, num_envs=3)
    assert isinstance(vector.unwrapped, SpadeVectorEnv)
    observations, _ = vector.reset(seed=[5, 6, 7])
    assert observations[1] == gymnasium.make(key).reset(seed=6)[0]
    assert vector.step(["a", "b", "c"])[1].dtype == np.float64
    vector.close()
    with pytest.raises(ValueError, match="shared memory cannot hold text"):
        SpadeVectorEnv(RECORD, num_envs=2, shared_memory=True)
    two = SpadeVectorEnv(RECORD, num_envs=2)
    two.reset(seed=0)
    with pytest.raises(ValueError, match="expected 2 actions"):
        two.step(["a"])


def test_gymnasiums_own_vector_environments_work_too():
    key = records()[0].program.id
    sync = gymnasium.vector.SyncVectorEnv([lambda: gymnasium.make(key)] * 2)
    assert len(set(sync.reset(seed=[1, 1])[0])) == 1
    asynchronous = gymnasium.vector.AsyncVectorEnv(
        [lambda: gymnasium.make("spade_envs:" + key)] * 2, shared_memory=False
    )
    try:
        assert asynchronous.reset(seed=[1, 1])[0] == sync.reset(seed=[1, 1])[0]
    finally:
        asynchronous.close()


# -- robust play -----------------------------------------------------------------------------------------------------


def whole(env, seed, turns=6):
    lines = [env.reset(seed=seed)]
    for turn in range(turns):
        lines.append(env.step(f"\\boxed{{{turn}}}"))
        if lines[-1][2] or lines[-1][3]:
            break
    return lines


def test_five_hundred_episodes_on_one_instance_are_like_the_first():
    env = SpadeEnv(RECORD)
    first = whole(env, 7)
    status = f"/proc/{env._episode.loaded.pid}/statm"
    for episode in range(500):
        found = whole(env, 7)
        assert found == first
        if episode == 100:
            with open(status) as file:
                size = int(file.read().split()[1])
    with open(status) as file:
        assert int(file.read().split()[1]) - size < 256, "pages that the worker grew by"


def test_instances_stepped_in_turn_go_as_alone_and_as_in_another_process():
    one, two, third = SpadeEnv(RECORD), SpadeEnv(RECORD), SpadeEnv(RECORD)
    lines = [[env.reset(seed=seed)] for env, seed in ((one, 3), (two, 3), (third, 9))]
    for turn in range(6):
        for line, env in zip(lines, (one, two, third), strict=True):
            if not (len(line) > 1 and (line[-1][2] or line[-1][3])):
                line.append(env.step(f"\\boxed{{{turn}}}"))
    alone = whole(SpadeEnv(RECORD), 3)
    assert lines[0] == lines[1] == alone
    script = """
import json, sys
sys.path.insert(0, sys.argv[1])
from env_samples import GUESS
from spade_envs.env import SpadeEnv
from spade_envs.sandbox import Pool
from spade_envs.sources import Record
env = SpadeEnv(Record(GUESS, max_turns=6), pool=Pool(hash_seed=99))
lines = [env.reset(seed=3)]
for turn in range(6):
    lines.append(env.step(f"\\\\boxed{{{turn}}}"))
    if lines[-1][2] or lines[-1][3]:
        break
print(json.dumps(lines))
"""
    folder = __file__.rsplit("/", 1)[0]
    done = subprocess.run([sys.executable, "-c", script, folder], capture_output=True, text=True, check=True)
    there = json.loads(done.stdout)
    # The order of a set of strings follows the hash seed: the gate rejects programs that show it (determinism).
    assert [line[0].rsplit(" ", 1)[0] for line in there] == [line[0].rsplit(" ", 1)[0] for line in alone]


def test_the_hosts_generators_never_move():
    random.seed(1)
    np.random.seed(1)
    before = (random.getstate(), np.random.get_state()[1].tolist())
    whole(SpadeEnv(RECORD), 3)
    whole(SpadeEnv(RECORD, trusted=True), 3)
    assert (random.getstate(), np.random.get_state()[1].tolist()) == before


def test_a_trusted_program_plays_the_same_episode():
    assert whole(SpadeEnv(RECORD, trusted=True), 5)[0] == whole(SpadeEnv(RECORD), 5)[0]


def test_the_package_names_its_version():
    assert spade_envs.__version__
