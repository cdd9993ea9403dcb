"""From a user's `--model` to a generator: `nano`, a path, a name at an endpoint, or `NAME@URL`.

`nano` is the tiny model of this package. Anything that exists on disk, or is written like a path, is a local model.
Everything else is a name at an OpenAI-compatible endpoint: the one after `@`, or the command's `--base-url`.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from spade_envs.errors import SpadeError
from spade_trainer.generation.generator import Generator

NANO = "nano"


@dataclass(frozen=True)
class EndpointOptions:
    """What the command line says about endpoints."""

    base_url: str | None = None
    key_variable: str = "OPENAI_API_KEY"
    timeout: float = 300.0
    tries: int = 8
    tool_choice: str = "auto"


def open_generator(model: str, endpoint: EndpointOptions, *, seed: int = 0) -> Generator:
    """Return the generator that `model` names; nothing is loaded or asked yet.

    Raises `SpadeError` for a path without a model, an endpoint without an address, or a missing extra.
    """
    if is_nano(model):
        return _local(nano_path(), NANO, seed)
    if is_local(model):
        return _local(Path(model).expanduser(), None, seed)
    name, _, url = model.partition("@http")
    try:
        from spade_trainer.generation.openai import OpenAIGenerator
    except ImportError as error:
        raise SpadeError(
            f"an endpoint needs the extra `design` ({error.name} is missing): pip install 'spade-envs[design]'"
        ) from None
    return OpenAIGenerator(
        name,
        base_url=f"http{url}" if url else endpoint.base_url,
        key_variable=endpoint.key_variable,
        timeout=endpoint.timeout,
        tries=endpoint.tries,
        tool_choice=endpoint.tool_choice,
    )


def is_nano(model: str) -> bool:
    """Tell whether the model is the one of this package."""
    return model == NANO


def is_local(model: str) -> bool:
    """Tell whether the model is a path. Names at endpoints often hold a slash, so a bare `a/b` must exist to be one."""
    if "@http" in model:
        return False
    return model.startswith(("./", "../", "/", "~")) or model.endswith(".gguf") or Path(model).expanduser().exists()


def nano_path() -> Path:
    """Return the folder of nano's weights."""
    from spade_trainer.nano import MODEL

    return MODEL


def _local(path: Path, name: str | None, seed: int) -> Generator:
    try:
        from spade_trainer.generation.local import LocalGenerator

        __import__("transformers")
    except ImportError as error:
        raise SpadeError(
            f"a local model needs the extra `train` ({error.name} is missing): pip install 'spade-envs[train]'"
        ) from None
    return LocalGenerator(path, name=name, seed=seed)
