"""What goes into a registry and what comes out, as plain records; nothing here knows SQL."""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Literal

from spade_envs.contract import Outcome, Program

Status = Literal["accepted", "rejected", "retired"]


def now() -> str:
    """The time as the registry stores it: UTC, ISO 8601, seconds."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def digest(text: str) -> str:
    """SHA-256 of a text, in hexadecimal."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def new_uuid() -> str:
    """Identity of a run."""
    return uuid.uuid4().hex


@dataclass(frozen=True)
class Origin:
    """How a program came to be."""

    run: int | None = None
    step: int | None = None
    attempt: int | None = None
    """Attempt within its slot, from 1."""
    designer: str | None = None
    """Model that wrote it."""
    checkpoint: str | None = None
    document: Mapping[str, Any] | None = None
    """Corpus document: `text`, and where known `title`, `source`, `license`."""
    parents: Sequence[str] = ()
    """Ids of the environments that the designer was shown."""
    prompt_version: str | None = None
    import_source: str | None = None
    import_checksum: str | None = None


@dataclass(frozen=True)
class Check:
    """What one stage of the gate found."""

    stage: str
    passed: bool
    message: str | None = None
    seconds: float | None = None
    warnings: Sequence[str] = ()


@dataclass(frozen=True)
class Play:
    """One episode."""

    environment: str
    run: int | None
    step: int | None
    policy: str | None
    seed: int | None
    hinted: bool
    ret: float | None
    """Return in [-1, 1]; None for a play without one."""
    outcome: Outcome
    turns: int | None = None
    tokens: int | None = None
    seconds: float | None = None
    transcript: str | None = None
    fault: str | None = None


@dataclass(frozen=True)
class NewEnvironment:
    """A program to store with all that is known about it; the arguments of `Registry.add`."""

    program: Program | str
    """A text that is not a program can only be stored as rejected."""
    skill: str | None = None
    status: Status = "accepted"
    status_reason: str | None = None
    max_turns: int | None = None
    hint: str | None = None
    hint_author: str | None = None
    hint_leak: str | None = None
    """Why the hint was refused; it is kept for inspection and never shown."""
    hint_prompt_version: str | None = None
    origin: Origin | None = None
    checks: Sequence[Check] = ()
    license: str | None = None
    observation: str | None = None


@dataclass(frozen=True)
class Measurement:
    """What the plays of one environment, run and step say; rates in [0, 1], returns in [-1, 1].

    Only plays that were won or lost count. Regret is paired: the mean over the seeds that both arms have played.
    """

    environment: str
    run: int
    step: int
    win_rate: float | None
    win_rate_hinted: float | None
    regret: float | None
    learnability: float | None
    n: int
    n_hinted: int
    win_rate_se: float | None = None
    win_rate_hinted_se: float | None = None
    regret_se: float | None = None
    mean_return: float | None = None
    mean_return_hinted: float | None = None
    n_pairs: int = 0
    cut: int = 0
    faulty: int = 0
    timeout: int = 0


@dataclass(frozen=True)
class Run:
    """A training, design or measuring run."""

    id: int
    uuid: str
    preset: str
    configuration: dict[str, Any]
    config_hash: str
    versions: dict[str, str]
    directory: str | None
    state: str
    started_at: str
    ended_at: str | None


@dataclass(frozen=True)
class Step:
    """The metrics of one step of a run."""

    run: int
    step: int
    metrics: dict[str, float]
    created_at: str


@dataclass(frozen=True)
class Document:
    """A corpus document."""

    sha256: str
    title: str | None
    text: str
    source: str | None
    license: str | None


@dataclass(frozen=True)
class Ranked:
    """A row of `leaderboard` and `graveyard`; what is unknown is None."""

    id: str
    skill: str | None
    source: str = field(repr=False)
    hint: str | None = None
    observation: str | None = field(default=None, repr=False)
    status: str = "accepted"
    reason: str | None = None
    win_rate: float | None = None
    win_rate_hinted: float | None = None
    regret: float | None = None
    regret_se: float | None = None
    n: int | None = None
    run: int | None = None
    step: int | None = None
