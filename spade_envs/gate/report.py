"""What the gate says about a program: one row a stage, and a verdict."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from spade_envs.contract import Program


@dataclass(frozen=True)
class StageResult:
    """One stage: whether it passed, the message for the designer, its time, and what is worth a remark."""

    stage: str
    passed: bool
    message: str = ""
    seconds: float = 0.0
    warnings: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class GateReport:
    """The verdict on one program.

    `program` is None where not even a class was found. `source` is what was judged, after repair; `changes` says what
    the repair did. `observation` is the opening of seed 0. `max_turns` is the class's own default, or how long an
    idle player's episode lasted.
    """

    accepted: bool
    program: Program | None
    source: str
    stages: list[StageResult]
    changes: list[str] = field(default_factory=list)
    observation: str | None = None
    max_turns: int | None = None

    @property
    def failure(self) -> tuple[str, str] | None:
        """Stage and message of what rejected the program; None if it is accepted."""
        return next(((one.stage, one.message) for one in self.stages if not one.passed), None)

    @property
    def warnings(self) -> list[str]:
        """Every remark, in the order of the stages."""
        return [warning for stage in self.stages for warning in stage.warnings]

    def to_dict(self) -> dict[str, Any]:
        """The report as JSON-able values."""
        return {
            "accepted": self.accepted,
            "id": self.program.id if self.program else None,
            "kind": self.program.kind if self.program else None,
            "max_turns": self.max_turns,
            "changes": self.changes,
            "stages": [asdict(stage) for stage in self.stages],
            "failure": dict(zip(("stage", "message"), self.failure, strict=True)) if self.failure else None,
            "observation": self.observation,
            "source": self.source,
        }

    def render(self, title: str = "") -> str:
        """The report as text for a terminal."""
        verdict = "accepted" if self.accepted else "rejected"
        head = " ".join(
            part for part in (title and f"{title}:", verdict, self.program.id if self.program else "") if part
        )
        lines = [head]
        for stage in self.stages:
            mark = "ok  " if stage.passed else "FAIL"
            first, *more = stage.message.split("\n")
            note = f"  {first}" if first else ""
            lines.append(f"  {mark} {stage.stage:<13} {stage.seconds * 1000:7.1f} ms{note}")
            lines += [f"       {line}" for line in more]
            lines += [f"       warning: {warning}" for warning in stage.warnings]
        return "\n".join(lines)
