"""Small programs, and plays of them, to put into a registry."""

from spade_registry import NewEnvironment, Origin, Play

TEMPLATE = """
import random
import re


class {name}Env:
    def __init__(self, max_turns=4, **kwargs):
        self.max_turns = max_turns

    def reset(self, seed=None):
        self.hidden, self.turn = random.Random(seed).randint(0, {top}), 0
        return "{text} A number from 0 to {top} is hidden. \\\\boxed{{n}}", {{}}

    def step(self, action):
        self.turn += 1
        found = re.findall(r"\\\\boxed\\{{(\\d+)\\}}", action)
        if found and int(found[-1]) == self.hidden:
            return "Right.", 1.0, True, False, {{}}
        return "No.", 0.0, False, self.turn >= self.max_turns, {{}}
"""


def source(name="Number", top=9, text="Guess."):
    """A program; other arguments give another one."""
    return TEMPLATE.format(name=name, top=top, text=text)


def plays(environment, run, step, unhinted, hinted=(), policy="model"):
    """Plays from strings of outcomes, one character a seed: w won, l lost, c cut, f faulty, t timeout."""
    words = {"w": "won", "l": "lost", "c": "cut", "f": "faulty", "t": "timeout"}
    return [
        Play(environment, run, step, policy, seed, arm == 1, 1.0 if letter == "w" else 0.0, words[letter])
        for arm, letters in enumerate((unhinted, hinted))
        for seed, letter in enumerate(letters)
    ]


def filled(registry, outcomes, *, skill="Logical Deduction", run=None, step=1):
    """Environments with the given outcomes, each `(unhinted, hinted)`; their ids, and the run."""
    run = registry.start_run("test", {"n": len(outcomes)}, None) if run is None else run
    new = [
        NewEnvironment(source(f"Number{i}", 9 + i), skill=skill, hint=f"hint {i}", origin=Origin(run=run, step=step))
        for i in range(len(outcomes))
    ]
    ids = registry.add_all(new)
    batch = [
        play for one, (bare, helped) in zip(ids, outcomes, strict=True) for play in plays(one, run, step, bare, helped)
    ]
    registry.commit_round(run, step, plays=batch)
    return ids, run
