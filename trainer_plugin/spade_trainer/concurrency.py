"""Running many jobs of one command side by side, with a bound, until all are done or one cannot go on."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import TypeVar

Job = TypeVar("Job")


async def run_all(jobs: Iterable[Job], work: Callable[[Job], Awaitable[None]], concurrency: int) -> None:
    """Do `work` on every job, at most `concurrency` at a time, in order of the jobs.

    The first exception cancels the rest and is raised as it is.
    """
    waiting = iter(jobs)

    async def worker() -> None:
        for job in waiting:
            await work(job)

    try:
        async with asyncio.TaskGroup() as group:
            for _ in range(concurrency):
                group.create_task(worker())
    except BaseExceptionGroup as errors:
        raise errors.exceptions[0] from None
