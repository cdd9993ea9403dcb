"""A `close` is told to the worker together with the next request, which must not be lost behind it."""

from spade_envs.contract import Program
from spade_envs.sandbox import Pool

SOURCE = """
class CountEnv:
    def reset(self, seed=None):
        self.n = 0
        return "count", {}

    def step(self, action):
        self.n += 1
        return str(self.n), 0.0, False, False, {}
"""


def test_closing_instances_never_disturbs_the_next_step():
    with Pool() as pool:
        loaded = pool.load(Program.from_source(SOURCE))
        (kept,) = loaded.make(1)
        loaded.reset([kept], [0])
        for turn in range(1, 400):
            others = loaded.make(2)
            loaded.reset(others, [1, 2])
            loaded.close(others)
            (answer,) = loaded.step([kept], ["go"])
            assert answer.observation == str(turn), answer
