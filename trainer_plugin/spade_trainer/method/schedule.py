"""The schedule: which step designs, for which skills, and when a designer's sample is due.

Steps are numbered from 1. With interval k, steps 1, k + 1, 2k + 1 ... design a new set of environments; a set is played
in the k steps from its design on, its window. A designer's sample is held back until its window is over.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

T = TypeVar("T")


def designs(step: int, interval: int) -> bool:
    """Whether a new set of environments is made at `step`."""
    return (step - 1) % interval == 0


def generation(step: int, interval: int) -> int:
    """Return the number of the set that is played at `step`, from 0."""
    return (step - 1) // interval


def active_skills(skills: Sequence[str], active: int, number: int) -> list[str]:
    """Return the `active` skills of set `number`, round-robin over `skills`."""
    return [skills[(number * active + i) % len(skills)] for i in range(active)]


@dataclass
class HoldBack(Generic[T]):
    """Samples that wait for their reward. Each comes out exactly once: when it is due, or when the run ends."""

    waiting: list[tuple[int, T]] = field(default_factory=list)
    """(step at which it is due, sample), in the order of arrival."""

    def hold(self, samples: Sequence[T], due: int) -> None:
        """Keep samples until step `due`."""
        self.waiting.extend((due, sample) for sample in samples)

    def release(self, step: int, *, flush: bool = False) -> list[T]:
        """Take out the samples that are due at `step`, or all of them."""
        out = [sample for due, sample in self.waiting if flush or due <= step]
        self.waiting = [(due, sample) for due, sample in self.waiting if not (flush or due <= step)]
        return out

    def state_dict(self) -> list[tuple[int, Any]]:
        """Return what `load_state_dict` restores."""
        return list(self.waiting)

    def load_state_dict(self, state: Sequence[tuple[int, T]]) -> None:
        """Restore the samples of `state_dict`."""
        self.waiting = [(due, sample) for due, sample in state]
