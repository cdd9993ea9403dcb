"""The same interface as a worker, for programs that their user trusts: they run in this very process.

No isolation, no deadlines, no policy; only the private `random` and the strict checks of results remain. It exists
for debugging a program one has read, and for systems on which no process can be sealed.
"""

from __future__ import annotations

import threading
import time
from typing import Any

from spade_envs.sandbox.protocol import Close, Inspect, Item, Load, LoadReport, Mend, Request, Reset, Solution, Step
from spade_envs.sandbox.runner import Runner

_one_at_a_time = threading.RLock()


class InProcessWorker:
    """Runs one program in the caller's thread, one call of all such workers at a time."""

    def __init__(self) -> None:
        self.alive = True
        self.spent = 0.0
        self.pid = 0
        self._runner = Runner(layers=["none: trusted=True"])

    def kill(self) -> None:
        """Forget every instance."""
        self.alive = False
        self._runner.worlds.clear()

    def cpu_seconds(self) -> float:
        """Processor time of the calling thread."""
        return time.thread_time()

    def load(self, request: Load, seconds: float) -> LoadReport:
        """Compile the program and try its class."""
        with _one_at_a_time:
            return self._runner.load(request)

    def tell(self, request: Request, seconds: float = 0.0) -> None:
        """Carry out a request that has no answer."""
        if isinstance(request, Close):
            with _one_at_a_time:
                for identifier in request.items:
                    self._runner.close(identifier)

    def batch(self, request: Request, count: int, seconds: float) -> list[Item]:
        """Carry out a batch."""
        run = self._runner
        calls: dict[type, Any] = {
            Reset: run.reset,
            Step: run.step,
            Solution: run.solution,
            Inspect: run.inspect,
            Mend: run.mend,
        }
        call = calls[type(request)]
        with _one_at_a_time:
            return [call(*item) if isinstance(item, tuple) else call(item) for item in request.items]  # type: ignore[union-attr]
