"""A finished step as rows of the registry."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from spade_trainer.design import Design, Job
from spade_trainer.rounds import Environment, Played


def round_record(
    run: int,
    step: int,
    model: str,
    designs: Sequence[tuple[Job, Design]],
    environments: Sequence[Environment],
    plays: Sequence[Played],
) -> dict[str, Any]:
    """Return the arguments of `Registry.commit_round` for a step, besides run, step and metrics."""
    return {"environments": [], "plays": list(plays), "measured": [one.id for one in environments]}
