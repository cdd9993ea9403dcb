"""Say how a remedy would do for everyone, from records in which the gravely ill got it more often."""

import random
import re


class TwoWardsEnv:
    WARDS = ("mild", "middling", "grave")

    def __init__(self, max_turns=3, **kwargs):
        self.max_turns = max_turns
        self._answer = 0
        self._turn = 0

    def reset(self, seed=None):
        rng = random.Random(seed)
        self._turn = 0
        while True:
            treated = [20 * rng.randint(1, 4), 20 * rng.randint(2, 5), 20 * rng.randint(4, 8)]
            spared = [20 * rng.randint(4, 8), 20 * rng.randint(2, 5), 20 * rng.randint(1, 4)]
            rates = [rng.randint(15, 19), rng.randint(9, 14), rng.randint(3, 8)]
            cured = [n * rate // 20 for n, rate in zip(treated, rates, strict=True)]
            others = [n * max(1, rate - rng.randint(1, 4)) // 20 for n, rate in zip(spared, rates, strict=True)]
            people = [a + b for a, b in zip(treated, spared, strict=True)]
            expected = sum(n * rate for n, rate in zip(people, rates, strict=True)) * 5
            self._answer, rest = divmod(expected, sum(people))
            crude = 100 * sum(cured) / sum(treated)
            if rest == 0 and abs(crude - self._answer) >= 4 and self._answer not in treated + spared + cured + others:
                break
        lines = "\n".join(
            f"- {ward}: {a} took the remedy, {c} of them recovered; {b} did not, {d} of them recovered"
            for ward, a, c, b, d in zip(self.WARDS, treated, cured, spared, others, strict=True)
        )
        return (
            "A hospital's records, by how ill the patients were when they came. Doctors chose who took the remedy\n"
            f"by looking at the illness only:\n{lines}\n"
            "What share of all these patients, in percent, would have recovered had every one of them taken\n"
            "the remedy?\n"
            "Reply with a whole number, \\boxed{N}. Only one answer counts."
        ), {}

    def step(self, action):
        self._turn += 1
        boxed = re.findall(r"\\boxed\{([^{}]*)\}", action)
        answer = re.fullmatch(r"([0-9]{1,3})\s*(\\?%|percent)?", boxed[-1].strip().lower()) if boxed else None
        if not answer:
            text = "A whole number of percent is expected: \\boxed{N}."
            return text, 0.0, False, self._turn >= self.max_turns, {}
        won = int(answer.group(1)) == self._answer
        return ("Correct." if won else "That is not the share."), 1.0 if won else 0.0, True, False, {}

    def solution(self):
        return f"\\boxed{{{self._answer}}}"
