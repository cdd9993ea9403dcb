"""Every error that this project raises on purpose, in one small tree.

The message of each says what was expected, what came, and what to do next; the command line prints it as it is.
"""

from __future__ import annotations

from collections.abc import Sequence


class SpadeError(Exception):
    """Base of all errors of `spade-envs`."""


class UnknownEnvironment(SpadeError):
    """No source knows the environment that was asked for."""


class AmbiguousEnvironment(SpadeError):
    """A hash prefix or a name fits more than one environment."""


class ProgramError(SpadeError):
    """A program does not follow the contract, and cannot be loaded."""


class PolicyViolation(ProgramError):
    """A program uses what the static policy forbids.

    `violations` lists `(line, message)` pairs, lines counted from 1.
    """

    def __init__(self, violations: Sequence[tuple[int, str]]) -> None:
        self.violations = [(int(line), str(message)) for line, message in violations]
        super().__init__("; ".join(f"line {line}: {message}" for line, message in self.violations))

    def __reduce__(self) -> tuple[type[PolicyViolation], tuple[list[tuple[int, str]]]]:
        return (type(self), (self.violations,))


class SandboxUnavailable(SpadeError):
    """This machine cannot seal a worker; nothing untrusted is run."""


class SandboxError(SpadeError):
    """The sandbox was used wrongly, or its own processes failed."""
