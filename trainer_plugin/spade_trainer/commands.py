"""The trainer's commands: `spade-envs selfplay` and `spade-envs report`.

Light to import: torch, verl and the drawing library are loaded only when a command runs.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.table import Table

from spade_trainer import report as reports
from spade_trainer import selfplay as runs

REGISTRY_OPTION = click.option(
    "--registry",
    type=click.Path(path_type=Path, dir_okay=False),
    default=None,
    help="Registry file to fill; default: $SPADE_REGISTRY, else the user's data directory.",
)


@click.command()
@click.option("--preset", default="nano", show_default=True, help="A preset's name; `spade-envs presets` lists them.")
@click.option("--steps", type=click.IntRange(min=1), default=None, help="Number of steps; default: the preset's.")
@click.option("--seed", type=int, default=None, help="Seed of the run; default: the preset's.")
@REGISTRY_OPTION
@click.option("--set", "overrides", multiple=True, metavar="KEY=VALUE", help="Override a setting; repeatable.")
@click.option("--new", "fresh", is_flag=True, help="Begin a new run even if the same command left one unfinished.")
@click.option("--dry-run", is_flag=True, help="Print the composed configuration and stop.")
def selfplay(
    preset: str,
    steps: int | None,
    seed: int | None,
    registry: Path | None,
    overrides: tuple[str, ...],
    fresh: bool,
    dry_run: bool,
) -> None:
    """Let a model design environments and learn in them, through verl, into a registry.

    A run that was interrupted continues from its last checkpoint with the same command.
    """
    settings = [*overrides]
    settings += [f"trainer.total_training_steps={steps}"] if steps is not None else []
    settings += [f"spade.seed={seed}"] if seed is not None else []
    if dry_run:
        click.echo(_composed(preset, settings))
        return
    run = runs.prepare(preset, settings, registry, fresh=fresh)
    console = Console(soft_wrap=True)
    console.print(f"run {run.id}, preset {preset}: {run.total_steps} steps, registry {run.registry}, log {run.log}")
    if run.continued:
        console.print("continuing the unfinished run of the same command")
    _watch(console, run)
    _summarise(console, run)


def _composed(preset: str, settings: list[str]) -> str:
    from omegaconf import OmegaConf

    runs.require_training_stack()
    from spade_trainer.presets import compose

    return OmegaConf.to_yaml(compose(preset, settings))


def _watch(console: Console, run: runs.Run) -> None:
    """Follow the run: one line a step, and on a terminal a live clock between the lines."""
    with console.status("starting verl and Ray", spinner="line") as status:

        def show(step: Any) -> None:
            console.print(line(step.step, run.total_steps, step.metrics))
            status.update(f"step {step.step + 1}")

        def wait(seconds: float) -> None:
            status.update(f"{str(status.status).split(' · ')[0]} · {seconds:.0f} s")

        runs.train(run, show, wait)


def line(step: int, total: int, metrics: dict[str, Any]) -> str:
    """Describe one step in one line; a statistic that the step did not produce is left out."""
    number = reports.number
    parts = [f"step {step:>3}/{total}"]
    written = metrics.get("spade/designer/written")
    if written:
        rejected = ", ".join(f"{stage} {count}" for stage, count in sorted(rejections(metrics).items()))
        accepted = int(metrics.get("spade/designer/accepted", 0))
        parts.append(
            f"programs {int(written)} written, {accepted} accepted" + (f" (rejected: {rejected})" if rejected else "")
        )
    parts.append(f"win rate {number(metrics.get('spade/player/win_rate'))}")
    if metrics.get("spade/player/win_rate_hinted") is not None:
        parts[-1] += f", hinted {number(metrics['spade/player/win_rate_hinted'])}"
    for label, name in (("regret", "spade/designer/regret"), ("designer reward", "spade/designer/reward")):
        if metrics.get(name) is not None:
            parts.append(f"{label} {number(metrics[name])}")
    seconds = {name.rsplit("/", 1)[1]: value for name, value in metrics.items() if name.startswith("spade/seconds/")}
    parts.append(", ".join(f"{phase} {value:.1f} s" for phase, value in seconds.items()))
    return " | ".join(part for part in parts if part)


def rejections(metrics: dict[str, Any]) -> dict[str, int]:
    """Return how many programs each gate stage rejected in a step."""
    prefix = "spade/designer/rejected/"
    return {
        name.removeprefix(prefix): int(value) for name, value in metrics.items() if name.startswith(prefix) and value
    }


def _summarise(console: Console, run: runs.Run, top: int = 10) -> None:
    with runs.Registry.open(run.registry, readonly=True) as store:
        best = store.leaderboard(run=run.id, n=top)
        path = reports.write_report(store, run.id, run.directory / "report.html")
    table = Table(title="Environments with the highest regret", title_justify="left")
    for column in ("environment", "skill", "regret", "win rate", "hinted"):
        text = column in ("environment", "skill")
        table.add_column(column, justify="left" if text else "right", no_wrap=column == "environment")
    for row in best:
        table.add_row(row.id, row.skill or "", *map(reports.number, (row.regret, row.win_rate, row.win_rate_hinted)))
    console.print(table)
    console.print(f"registry: {run.registry}\nreport:   {path}")
    if best:
        console.print(f'use one:  import gymnasium, spade_envs; env = gymnasium.make("{best[0].id}")', markup=False)


@click.command()
@click.argument("run", type=int)
@REGISTRY_OPTION
@click.option(
    "--output", type=click.Path(path_type=Path, dir_okay=False), default=None, help="Default: run-<RUN>.html here."
)
def report(run: int, registry: Path | None, output: Path | None) -> None:
    """Write the HTML report of RUN (a number that `selfplay` printed): curves, best environments, rejects."""
    path = output or Path(f"run-{run}.html")
    with runs.Registry.open(registry, readonly=True) as store:
        click.echo(reports.write_report(store, run, path))
