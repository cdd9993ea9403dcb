"""The documentation is true: the CLI reference is current, shown commands and options exist, links resolve."""

from __future__ import annotations

import importlib.util
import re
import shlex
from pathlib import Path

import click
import pytest
from sqlite_utils.cli import cli as sqlite_utils

from spade_envs.cli import main

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")])
HAND_WRITTEN = [page for page in PAGES if page.name != "cli.md"]
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```", re.M | re.S)
INLINE = re.compile(r"`((?:spade-envs|sqlite-utils|make) [^`\n]+)`")
LINK = re.compile(r"\[[^\]]+\]\((?!https?:|#)([^)#]+)[^)]*\)")


def shown_commands(page: Path) -> list[str]:
    """Every `spade-envs ...`, `sqlite-utils ...` and `make ...` that a page shows, in blocks and in running text."""
    text = page.read_text(encoding="utf-8")
    lines = [line for language, body in BLOCK.findall(text) if language in ("bash", "sh") for line in body.splitlines()]
    joined = "\n".join(lines).replace("\\\n", " ").splitlines()
    shown = [line.strip().removeprefix("$ ") for line in joined] + INLINE.findall(BLOCK.sub("", text))
    return [line for line in shown if line.startswith(("spade-envs ", "sqlite-utils ", "make "))]


CASES = [(page, line) for page in HAND_WRITTEN for line in shown_commands(page)]


def ids(case: tuple[Path, str]) -> str:
    return f"{case[0].name}: {case[1]}"


@pytest.mark.parametrize("name", ["cli.md", "schema.md"])
def test_a_generated_page_is_current(name):
    spec = importlib.util.spec_from_file_location("generate", ROOT / "docs" / "generate.py")
    generate = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(generate)
    assert (ROOT / "docs" / name).read_text(encoding="utf-8") == generate.PAGES[name](), "run `make docs`"


@pytest.mark.parametrize("case", [case for case in CASES if not case[1].startswith("make ")], ids=ids)
def test_a_shown_command_exists_with_its_options(case):
    tool, *words = shlex.split(re.split(r"\s[|>#&]|[|;]", case[1])[0])
    command: click.Command = {"spade-envs": main, "sqlite-utils": sqlite_utils}[tool]
    context = click.Context(command, info_name=tool)
    while isinstance(command, click.Group) and words and not words[0].startswith("-"):
        name = words.pop(0)
        child = command.get_command(context, name)
        assert child is not None, f"{case[0].name} shows `{case[1]}`, but there is no command `{name}`"
        command, context = child, click.Context(child, info_name=name, parent=context)
    known = {
        option for parameter in command.get_params(context) for option in (*parameter.opts, *parameter.secondary_opts)
    }
    for word in words:
        if word.startswith("-") and word != "-":
            assert word.split("=")[0] in known, f"{case[0].name} shows `{case[1]}`, but {word} is not an option"


@pytest.mark.parametrize("case", [case for case in CASES if case[1].startswith("make ")], ids=ids)
def test_a_shown_make_target_exists(case):
    targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.M))
    words = [word for word in shlex.split(case[1])[1:] if "=" not in word and not word.startswith("#")]
    assert words
    assert words[0] in targets


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_resolve(page):
    missing = [link for link in LINK.findall(page.read_text(encoding="utf-8")) if not (page.parent / link).exists()]
    assert not missing


def test_the_readme_shows_the_three_uses_on_its_first_screen():
    first_screen = (ROOT / "README.md").read_text(encoding="utf-8").splitlines()[:40]
    text = "\n".join(first_screen)
    assert "gymnasium.make(" in text
    assert "make demo" in text
    assert "sqlite-utils" in text
