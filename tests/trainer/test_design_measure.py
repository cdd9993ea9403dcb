"""`design` and `measure` end to end, against an endpoint that answers by a script: streams, retries, continues, compares."""

import pytest

pytest.importorskip("openai")

from click.testing import CliRunner
from scripted_endpoint import Endpoint, answer, refusal

from spade_envs.cli import main
from spade_registry import Registry

PROGRAM = '''
import random
import re


class Vault{number}Env:
    """A number is hidden."""

    def __init__(self, max_turns=6, **kwargs):
        self.max_turns = max_turns

    def reset(self, seed=None):
        self.hidden, self.turn = random.Random(seed).randint({low}, {low} + 30), 0
        return "A number from {low} on, within thirty. Reply \\\\boxed{{n}}; each answer says higher or lower.", {{}}

    def step(self, action):
        self.turn += 1
        found = re.findall(r"\\\\boxed\\{{(\\d+)\\}}", action)
        if not found:
            return "Use \\\\boxed{{n}}.", 0.0, False, self.turn >= self.max_turns, {{}}
        guess = int(found[-1][:9])
        if guess == self.hidden:
            return "Right.", 1.0, True, False, {{}}
        return ("Higher." if guess < self.hidden else "Lower."), 0.0, False, self.turn >= self.max_turns, {{}}

    def solution(self):
        return f"\\\\boxed{{{{{{self.hidden}}}}}}"
'''


def program(number):
    return f"Here it is.\n```python\n{PROGRAM.format(number=number, low=100 * number).strip()}\n```"


class Model:
    """Designs a new vault at each request, hints at bisection, and plays by it if it is told to, else from below."""

    def __init__(self, broken=()):
        self.written, self.broken = 0, set(broken)

    def __call__(self, body, n):
        said = "\n".join(str(message["content"]) for message in body["messages"])
        if "Write an environment" in said:
            self.written += 1
            if self.written in self.broken:
                return answer("I would rather not.")
            return answer(program(self.written), prompt=50, completion=100)
        if "class Vault" in said:
            return answer("Halve the range with each answer.")
        return answer(f"\\boxed{{{self._move(body['messages'])}}}")

    def _move(self, messages):
        low = int(messages[1]["content"].split("from ")[1].split()[0])
        high, guesses = low + 30, []
        for said, heard in zip(messages[2::2], messages[3::2], strict=False):
            guess = int(said["content"][7:-1])
            guesses.append(guess)
            low, high = (guess + 1, high) if "Higher" in heard["content"] else (low, guess - 1)
        hinted = "Halve" in messages[0]["content"]
        return (low + high) // 2 if hinted else low


def run(*words, code=0):
    result = CliRunner().invoke(main, [str(word) for word in words])
    assert result.exit_code == code, result.output + str(result.exception or "")
    return result.output


@pytest.fixture
def registry(tmp_path, monkeypatch):
    path = tmp_path / "registry.db"
    monkeypatch.setenv("SPADE_REGISTRY", str(path))
    monkeypatch.setenv("OPENAI_API_KEY", "sk-SECRET")
    return path


def design(endpoint, *words, code=0):
    return run("design", "--model", f"m@{endpoint.url}", "--concurrency", 1, "--max-turns", 6, *words, code=code)


def test_designs_stream_into_the_registry_with_hint_origin_and_cost(registry):
    with Endpoint(Model(broken={2})) as endpoint:
        shown = design(endpoint, "--n", 2, "--repairs", 0)
    assert "2 accepted of 3 written" in shown
    assert "extract" in shown
    with Registry.open(registry, readonly=True) as store:
        found = list(store.records())
        assert [record.hint for record in found] == ["Halve the range with each answer."] * 2
        origin = (
            store.connection().execute("SELECT designer, attempt, prompt_version, document FROM origins").fetchall()
        )
        assert {row[0] for row in origin} == {"m"}
        assert all(row[2] and row[3] for row in origin)
        assert {status for (status,) in store.connection().execute("SELECT status FROM environments")} == {
            "accepted",
            "rejected",
        }
    assert b"sk-SECRET" not in registry.read_bytes()


def test_a_run_that_failed_half_way_keeps_what_is_done_and_goes_on(registry):
    model, expired = Model(), [True]

    def script(body, n):
        return refusal(401, "your key has expired") if expired[0] and model.written >= 2 else model(body, n)

    with Endpoint(script) as endpoint:
        said = design(endpoint, "--n", 3, code=2)
        assert "refuses the key in $OPENAI_API_KEY" in said
        with Registry.open(registry, readonly=True) as store:
            kept = list(store.ids())
        assert 1 <= len(kept) < 3
        expired[0], before = False, model.written
        design(endpoint, "--n", 3)
    with Registry.open(registry, readonly=True) as store:
        assert list(store.ids())[: len(kept)] == kept
        assert len(list(store.ids())) == 3
    assert model.written - before == 3 - len(kept)


def test_measuring_plays_both_arms_once_and_compares_two_models(registry):
    with Endpoint(Model(), models=("m", "other")) as endpoint:
        design(endpoint, "--n", 2)
        measure = ("measure", "--all", "--n", 6, "--model", f"m@{endpoint.url}")
        run(*measure)
        requests = len(endpoint.requests)
        with Registry.open(registry, readonly=True) as store:
            for key in store.ids():
                (measured,) = store.measurements(key)
                assert (measured.n, measured.n_hinted, measured.n_pairs) == (6, 6, 6)
                assert measured.win_rate_hinted == 1.0
                assert measured.win_rate < 1.0
                assert measured.regret == pytest.approx(1.0 - measured.win_rate)
                seeds = {(play.seed, play.hinted) for play in store.plays(key)}
                assert seeds == {(seed, hinted) for seed in range(6) for hinted in (False, True)}
        run(*measure)
        assert len(endpoint.requests) == requests, "what the registry has is not played again"
        both = run(*measure, "--model", f"other@{endpoint.url}")
        assert "other minus m" in both
        assert len(endpoint.requests) > requests, "the other model plays for itself"
