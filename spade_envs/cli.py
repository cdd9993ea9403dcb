"""The command line: `spade-envs COMMAND`.

This module owns the commands that need nothing but the core (`play`, `validate`, `doctor`). The other rooms announce
theirs under the entry-point group `spade_envs.commands`; an announced command is imported when it is named, so that
`spade-envs --help` stays quick and a missing extra costs only the command that needs it.

Exit codes: 0 success, 1 a program was rejected, 2 the request cannot be carried out (one sentence on stderr says why).
"""

from __future__ import annotations

import json
import os
import platform
import sys
from collections.abc import Iterable
from importlib import metadata
from pathlib import Path
from typing import Any, NoReturn

import click

from spade_envs import errors

COMMANDS_GROUP = "spade_envs.commands"
DIAGNOSTICS_GROUP = "spade_envs.diagnostics"
REPORTED_VERSIONS = (
    *("spade-envs", "gymnasium", "RestrictedPython", "msgspec", "sqlite-utils"),
    *("torch", "transformers", "verl", "TransferQueue", "ray"),
)


class CommandGroup(click.Group):
    """A click group that also offers the commands announced by installed distributions."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Name the group's own commands and the announced ones, sorted."""
        return sorted({*super().list_commands(ctx), *(entry.name for entry in _announced())})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return the command, importing it if another room announced it."""
        own = super().get_command(ctx, cmd_name)
        if own is not None:
            return own
        for entry in _announced():
            if entry.name == cmd_name:
                try:
                    return entry.load()
                except ImportError as error:
                    return _unavailable(entry, error)
        return None

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; an error that we foresaw becomes one sentence and exit code 2."""
        try:
            return super().invoke(ctx)
        except errors.SpadeError as error:
            fail(str(error))


def _announced() -> Iterable[metadata.EntryPoint]:
    return metadata.entry_points(group=COMMANDS_GROUP)


def _unavailable(entry: metadata.EntryPoint, error: ImportError) -> click.Command:
    extra = entry.extras[0] if entry.extras else "train"
    reason = (
        f"`spade-envs {entry.name}` cannot be loaded ({error}). It needs the extra `{extra}`: "
        f"pip install 'spade-envs[{extra}]'"
    )
    return click.Command(
        entry.name,
        callback=lambda **_: fail(reason),
        help=f"Not available: {reason}",
        short_help=f"(needs the extra `{extra}`)",
        context_settings={"ignore_unknown_options": True},
        params=[click.Argument(["arguments"], nargs=-1, type=click.UNPROCESSED)],
    )


def fail(message: str) -> NoReturn:
    """Print one sentence on stderr and leave with exit code 2."""
    click.echo(f"Error: {message}", err=True)
    sys.exit(2)


@click.group(cls=CommandGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="spade-envs")
def main() -> None:
    """Design, store, play and train on executable environments written by language models."""


@main.command()
@click.argument("environment")
@click.option("--seed", type=int, default=None, help="Seed of the episode; drawn and shown when absent.")
@click.option("--hint", is_flag=True, help="Show the environment's hint before the first turn.")
@click.option("--raw", is_flag=True, help="Send lines as typed, instead of boxing a line without \\boxed{}.")
def play(environment: str, seed: int | None, hint: bool, raw: bool) -> None:
    """Play ENVIRONMENT (an id, a hash prefix or an unambiguous name) in the terminal.

    The program runs in a sealed worker, as in training. Leave with Ctrl-D.
    """
    import random

    from spade_envs.env import SpadeEnv

    seed = random.SystemRandom().randrange(2**31) if seed is None else seed
    env = SpadeEnv(environment, hint=hint)
    try:
        observation, info = env.reset(seed=seed)
        click.echo(f"{env.program.id}, seed {seed}")
        if hint:
            click.echo(f"Hint: {info.get('hint') or 'this environment has none'}")
        over, reward = False, 0.0
        while not over:
            click.echo(f"\n{observation}")
            line = _ask()
            if line is None:
                click.echo("Left.")
                return
            action = line if raw or "\\boxed" in line else boxed(line)
            observation, reward, terminated, truncated, info = env.step(action)
            over = terminated or truncated
        click.echo(f"\n{observation}\n\n{_verdict(info, reward)}")
    finally:
        env.close()


def _ask() -> str | None:
    try:
        return click.prompt(">", prompt_suffix=" ", default="", show_default=False)
    except (click.Abort, EOFError):
        click.echo()
        return None


def boxed(line: str) -> str:
    r"""Wrap a typed line as an agent would: `look a` becomes `\boxed{look a}`."""
    return f"\\boxed{{{line.strip()}}}"


def _verdict(info: dict[str, Any], reward: float) -> str:
    outcome = str(info.get("outcome", "over"))
    fault = f": {info['fault']}" if info.get("fault") else ""
    return f"Outcome: {outcome}{fault} (return {reward:g})"


@main.command()
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path, dir_okay=False))
@click.option("--hint", default=None, help="A hint to check for leaks of the solution.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout instead of the readable report.")
def validate(files: tuple[Path, ...], hint: str | None, as_json: bool) -> None:
    """Check program FILES as the gate does: policy, load, play, determinism, leaks, cost.

    Exit code 0 when every program is accepted, 1 when one is rejected.
    """
    from concurrent.futures import ThreadPoolExecutor

    from spade_envs.gate import check
    from spade_envs.sandbox import Pool

    sources = [_read(path) for path in files]
    reports = []
    with Pool() as pool, ThreadPoolExecutor(os.cpu_count()) as threads:
        checked = threads.map(lambda text: check(text, pool=pool, hint=hint), sources)
        for path, report in zip(files, checked, strict=True):
            reports.append({"file": str(path), **report.to_dict()})
            if not as_json:
                click.echo(report.render(str(path)))
    if as_json:
        click.echo(json.dumps(reports, indent=2))
    sys.exit(0 if all(report["accepted"] for report in reports) else 1)


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        fail(f"{path} cannot be read as UTF-8 text: {error}")


@main.command()
@click.option("--json", "as_json", is_flag=True, help="One JSON document instead of the table.")
def doctor(as_json: bool) -> None:
    """Report versions, what the sandbox finds in this kernel, the registry file and the verl plugin.

    Exit code 0 when untrusted programs can be run here, 1 when they cannot.
    """
    from spade_envs import sandbox

    status = sandbox.status()
    report: dict[str, dict[str, Any]] = {"versions": versions(), "sandbox": status, "sources": _sources()}
    for entry in metadata.entry_points(group=DIAGNOSTICS_GROUP):
        try:
            report[entry.name] = entry.load()()
        except Exception as error:  # a broken part must be reported, not end the report
            report[entry.name] = {"problem": f"{type(error).__name__}: {error}"}
    click.echo(json.dumps(report, indent=2, default=str) if as_json else _render(report))
    sys.exit(0 if status.get("available") else 1)


def versions() -> dict[str, str]:
    """Versions of Python, the kernel and every distribution that this project builds on, where installed."""
    found = {"python": platform.python_version(), "kernel": f"{platform.system()} {platform.release()}"}
    for name in REPORTED_VERSIONS:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            found[name] = "not installed"
    return found


def _sources() -> dict[str, str]:
    from spade_envs.sources import sources

    return {source.name: str(source.location) for source in sources()}


def _render(report: dict[str, dict[str, Any]]) -> str:
    lines: list[str] = []
    for title, facts in report.items():
        lines.append(f"\n{title}")
        lines += [f"  {name:<24} {_shown(value)}" for name, value in facts.items()]
    return "\n".join(lines).strip()


def _shown(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, (list, tuple)):
        return ", ".join(map(str, value)) or "none"
    return str(value)
