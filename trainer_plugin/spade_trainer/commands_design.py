"""The commands that need a model but no training: `spade-envs design`, `measure` and `prompts`.

Light to import: the clients, torch and the sandbox are loaded only when a command runs.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click
from rich.console import Console
from rich.table import Table

from spade_envs.contract import Program
from spade_envs.errors import SpadeError
from spade_trainer import measure_report as report

if TYPE_CHECKING:
    from rich.status import Status

    from spade_trainer.design import Design
    from spade_trainer.design_run import DesignConfig, Designing, Slot, Tally
    from spade_trainer.generation.generator import Generator
    from spade_trainer.measure import MeasureConfig, Measured, Progress
    from spade_trainer.prompt_sets import PromptSet

Result = TypeVar("Result")
INTERRUPTED = 130  # exit code of a command that Ctrl-C ended, by convention 128 + SIGINT

MODEL_HELP = (
    "`nano`, the path of a transformers model or .gguf file, a model's name at the endpoint, or NAME@URL. "
    "The key of an endpoint is read from the environment only."
)


def _options(*decorators: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def apply(command: Any) -> Any:
        for decorator in reversed(decorators):
            command = decorator(command)
        return command

    return apply


ENDPOINT = _options(
    click.option("--base-url", default=None, help="Endpoint, up to and including /v1; default: $OPENAI_BASE_URL."),
    click.option(
        "--api-key-env",
        default="OPENAI_API_KEY",
        show_default=True,
        help="Name of the environment variable that holds the key.",
    ),
    click.option(
        "--timeout",
        type=click.FloatRange(min=0.1),
        default=300.0,
        show_default=True,
        help="Seconds of silence after which a request is given up and made again.",
    ),
    click.option(
        "--tries",
        type=click.IntRange(min=1),
        default=8,
        show_default=True,
        help="How often a request is made before its error is final.",
    ),
)
REGISTRY = click.option(
    "--registry",
    type=click.Path(path_type=Path, dir_okay=False),
    default=None,
    help="Registry file to fill; default: $SPADE_REGISTRY, else the user's data directory.",
)
PROMPTS = click.option(
    "--prompts",
    "prompts_dir",
    type=click.Path(path_type=Path),
    default=None,
    help="Folder of templates that replace those of the package (`spade-envs prompts show`).",
)
TOOL_CHOICE = click.option(
    "--tool-choice",
    type=click.Choice(["auto", "required", "none", "prompt"]),
    default="auto",
    show_default=True,
    help="How an endpoint's model learns of its tools: `prompt` puts the schemas into the system message, the others "
    "send them with the request.",
)


@click.group()
def prompts() -> None:
    """Print the prompts that designers and players get."""


@prompts.command("list")
@click.option("--variant", default="default", show_default=True, help="Templates for which kind of model.")
@PROMPTS
def prompts_list(variant: str, prompts_dir: Path | None) -> None:
    """Name the prompts, with their versions."""
    from spade_trainer.prompt_sets import NAMES, PromptSet

    chosen = PromptSet(variant, prompts_dir)
    for name in chosen.names():
        click.echo(f"{name:<20} {chosen.version(name)}  {NAMES[name]}")


@prompts.command("show")
@click.argument("names", nargs=-1)
@click.option("--variant", default="default", show_default=True, help="Templates for which kind of model.")
@PROMPTS
def prompts_show(names: tuple[str, ...], variant: str, prompts_dir: Path | None) -> None:
    """Print templates (all of them without NAMES), to read or to begin one's own from.

    A single NAME is printed as it is, so that `spade-envs prompts show player > mine/player.j2` gives a file to edit.
    """
    from spade_trainer.prompt_sets import PromptSet

    chosen = PromptSet(variant, prompts_dir)
    if len(names) == 1:
        click.echo(chosen.source(names[0]), nl=False)
        return
    for name in names or chosen.names():
        click.echo(f"--- {name} (version {chosen.version(name)})\n{chosen.source(name)}")


VARIANT = click.option("--variant", default=None, help="Prompt variant; default: `nano` for nano, else `default`.")
JSON = click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout instead of the tables.")


@click.command()
@click.option("--model", required=True, help=f"Who designs: {MODEL_HELP}")
@ENDPOINT
@click.option(
    "--corpus",
    type=click.Path(path_type=Path),
    default=None,
    help="JSON Lines or parquet file, or a folder of text files; default: the corpus that comes with the package.",
)
@click.option("--no-corpus", is_flag=True, help="Design without documents.")
@click.option("--skill", "skills", multiple=True, help="Skill to exercise; repeatable; default: the six of the kind.")
@click.option("--kind", type=click.Choice(["game", "tool_use"]), default="game", show_default=True)
@click.option(
    "--task",
    "tasks",
    multiple=True,
    type=click.Choice(["execute", "read_then_write", "missing_value", "irrelevant_request"]),
    help="Variant of tool-use tasks; repeatable; default: all four in turn.",
)
@click.option("--n", type=click.IntRange(min=1), default=8, show_default=True, help="Environments wanted.")
@click.option(
    "--attempts",
    type=click.IntRange(min=1),
    default=5,
    show_default=True,
    help="Programs written for each of them, until the gate accepts one.",
)
@click.option(
    "--repairs",
    type=click.IntRange(min=0),
    default=1,
    show_default=True,
    help="How often a rejected program is sent back with the gate's message before a fresh one is asked for.",
)
@click.option("--concurrency", type=click.IntRange(min=1), default=8, show_default=True, help="Slots in work at once.")
@click.option(
    "--max-turns",
    type=click.IntRange(min=1),
    default=25,
    show_default=True,
    help="Turn limit that programs are asked for; 1 asks for single-turn games.",
)
@click.option("--temperature", type=click.FloatRange(0, 2), default=0.6, show_default=True)
@click.option(
    "--max-tokens", type=click.IntRange(min=1), default=16384, show_default=True, help="Token limit of one program."
)
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of documents and memory.")
@REGISTRY
@PROMPTS
@VARIANT
@click.option("--new", "fresh", is_flag=True, help="Begin a new run even if the same command left one unfinished.")
@JSON
def design(
    model: str,
    corpus: Path | None,
    no_corpus: bool,
    registry: Path | None,
    prompts_dir: Path | None,
    variant: str | None,
    concurrency: int,
    fresh: bool,
    as_json: bool,
    **options: Any,
) -> None:
    """Let a model write environments from a corpus, check them, and store what passes.

    Every program goes through repair, the gate, a hint and its leak check into the registry as it comes. Ctrl-C keeps
    what is done, and the same command continues. Exit code 1 when no environment came of it.
    """
    from spade_registry import Registry
    from spade_trainer.corpus import open_corpus
    from spade_trainer.design_run import Designing

    generator = _generator(model, options, 0)
    config = _design_config(options)
    chosen = _prompt_set(model, variant, prompts_dir)
    console = Console(soft_wrap=True, stderr=as_json, highlight=False)
    with Registry.open(registry) as store:
        documents = None if no_corpus else open_corpus(corpus, registry=store)
        designing = Designing(store, generator, documents, chosen, config, fresh=fresh)
        console.print(f"{config.n} environments by {generator.name}, registry {store.path}", markup=False)
        with console.status("asking the model", spinner="line") as status:

            def show(slot: Slot, made: Design) -> None:
                console.print(_slot_line(slot, made, config.n), markup=False)
                status.update(_design_status(designing.tally, config.n))

            _run(console, _closing(generator, designing.run(concurrency, show)))
    if as_json:
        click.echo(json.dumps(designing.result(), indent=2, ensure_ascii=False))
    else:
        _show_design(console, designing)
    sys.exit(0 if designing.tally.accepted else 1)


def _design_config(options: dict[str, Any]) -> DesignConfig:
    from spade_trainer.design_run import SKILLS, TASKS, DesignConfig
    from spade_trainer.generation.generator import Sampling

    return DesignConfig(
        kind=options["kind"],
        skills=options["skills"] or tuple(SKILLS[options["kind"]]),
        tasks=options["tasks"] or TASKS,
        n=options["n"],
        attempts=options["attempts"],
        repair_turns=options["repairs"],
        max_turns=options["max_turns"],
        seed=options["seed"],
        sampling=Sampling(options["temperature"], options["max_tokens"]),
    )


def _slot_line(slot: Slot, made: Design, n: int) -> str:
    """Describe a settled slot in one line."""
    lead = f"{slot.index + 1:>3}/{n} {slot.skill}: "
    rejects = ", ".join(attempt.stage for attempt in made.attempts if attempt.stage)
    after = f" after rejects at {rejects}" if rejects else ""
    if made.accepted is None:
        return f"{lead}nothing accepted{after}; last: {' '.join((made.attempts[-1].message or '').split())[:200]}"
    hint = "" if made.hint else f"; without a hint ({made.hint_leak})"
    return f"{lead}{Program.from_source(made.accepted.source).id}{after}{hint}"


def _design_status(tally: Tally, n: int) -> str:
    return f"{tally.settled}/{n} slots, {tally.accepted} accepted of {tally.written} written, {tally.tokens} tokens"


def _show_design(console: Console, designing: Designing) -> None:
    tally = designing.tally
    table = Table(title="Programs by stage of the gate", title_justify="left")
    for column in ("stage", "entered", "rejected", "passed"):
        table.add_column(column, justify="left" if column == "stage" else "right")
    for stage, entered in tally.entered.items():
        rejected = tally.rejected[stage]
        table.add_row(stage, str(entered), str(rejected), f"{100 * (entered - rejected) / entered:.0f} %")
    console.print(table)
    console.print(
        f"{tally.accepted} accepted of {tally.written} written"
        + (f", {tally.without_hint} of them without a hint" if tally.without_hint else "")
        + f"; {tally.prompt_tokens} prompt tokens, {tally.tokens} written tokens"
        + (f", {tally.tokens // tally.accepted} per environment" if tally.accepted else ""),
        markup=False,
    )
    if designing.environments:
        console.print(f"how hard is one:  spade-envs measure {designing.environments[0]} --model ...", markup=False)


@click.command()
@click.argument("environments", nargs=-1)
@click.option("--model", "models", multiple=True, required=True, help=f"Who plays; repeatable: {MODEL_HELP}")
@ENDPOINT
@TOOL_CHOICE
@click.option("--all", "everything", is_flag=True, help="Measure every accepted environment of the registry.")
@click.option("--skill", default=None, help="With --all: only this skill.")
@click.option("--n", type=click.IntRange(min=1), default=16, show_default=True, help="Plays per arm and environment.")
@click.option(
    "--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Seed of the first play; others follow."
)
@click.option("--max-turns", type=click.IntRange(min=1), default=25, show_default=True, help="Turn limit of a play.")
@click.option("--temperature", type=click.FloatRange(0, 2), default=0.6, show_default=True)
@click.option(
    "--max-tokens", type=click.IntRange(min=1), default=8192, show_default=True, help="Token limit of one action."
)
@click.option("--concurrency", type=click.IntRange(min=1), default=16, show_default=True, help="Plays at once.")
@click.option(
    "--transcripts",
    type=click.IntRange(min=0),
    default=2,
    show_default=True,
    help="Plays per arm and environment whose conversation is stored.",
)
@REGISTRY
@PROMPTS
@VARIANT
@JSON
def measure(
    environments: tuple[str, ...],
    models: tuple[str, ...],
    everything: bool,
    skill: str | None,
    registry: Path | None,
    prompts_dir: Path | None,
    variant: str | None,
    as_json: bool,
    **options: Any,
) -> None:
    """Play ENVIRONMENTS with one or more models, with and without the hint, on the same seeds.

    Plays and measurements go into the registry. A play that it already holds (same model, way of playing, environment,
    seed and arm) is not played again, so an interrupted command continues, and a larger --n adds what is missing.
    """
    from spade_registry import Registry
    from spade_trainer.measure import Measuring, select

    generators = [_generator(model, options, options["seed"]) for model in models]
    if len({generator.name for generator in generators}) < len(generators):
        raise SpadeError("every --model must be another one: the registry tells plays apart by the model's name")
    console = Console(soft_wrap=True, stderr=as_json, highlight=False)
    results: list[Measured] = []
    with Registry.open(registry) as store:
        targets = select(store, environments, everything=everything, skill=skill)
        for model, generator in zip(models, generators, strict=True):
            config = _measure_config(options, _prompt_set(model, variant, prompts_dir))
            with console.status(f"{generator.name}: starting", spinner="line") as status:

                def show(progress: Progress, name: str = generator.name, status: Status = status) -> None:
                    status.update(f"{name}: {progress.line()}")

                measuring = Measuring(store, generator, targets, config)
                results.append(_run(console, _closing(generator, measuring.run(show))))
            console.print(f"{generator.name}: {results[-1].progress.line()}", markup=False)
    if as_json:
        click.echo(json.dumps(report.as_json(targets, results), indent=2, ensure_ascii=False))
    else:
        report.show(console, targets, results)


def _measure_config(options: dict[str, Any], prompt_set: PromptSet) -> MeasureConfig:
    from spade_trainer.generation.generator import Sampling
    from spade_trainer.measure import MeasureConfig

    return MeasureConfig(
        n=options["n"],
        seed=options["seed"],
        max_turns=options["max_turns"],
        concurrency=options["concurrency"],
        transcripts=options["transcripts"],
        sampling=Sampling(options["temperature"], options["max_tokens"]),
        prompts=prompt_set,
    )


def _generator(model: str, options: dict[str, Any], seed: int) -> Generator:
    from spade_trainer.generation.models import EndpointOptions, open_generator

    endpoint = EndpointOptions(
        base_url=options["base_url"],
        key_variable=options["api_key_env"],
        timeout=options["timeout"],
        tries=options["tries"],
        tool_choice=options.get("tool_choice", "auto"),
    )
    return open_generator(model, endpoint, seed=seed)


def _prompt_set(model: str, variant: str | None, directory: Path | None) -> PromptSet:
    from spade_trainer.generation.models import is_nano
    from spade_trainer.prompt_sets import DEFAULT, PromptSet

    return PromptSet(variant or ("nano" if is_nano(model) else DEFAULT), directory)


async def _closing(generator: Generator, work: Coroutine[Any, Any, Result]) -> Result:
    try:
        return await work
    finally:
        await generator.close()


def _run(console: Console, work: Coroutine[Any, Any, Result]) -> Result:
    """Run a pipeline to its end; Ctrl-C ends it in order, and says that nothing done is lost."""
    try:
        return asyncio.run(work)
    except KeyboardInterrupt:
        console.print("Stopped. What is done is kept; the same command continues.", markup=False)
        sys.exit(INTERRUPTED)
