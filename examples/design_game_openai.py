"""Play the design game with a language model in all three roles, behind any OpenAI-compatible endpoint.

    python examples/design_game_openai.py Qwen/Qwen3-4B-Instruct-2507 --base-url http://localhost:8000/v1

The key, where the endpoint wants one, is in OPENAI_API_KEY.
"""

from __future__ import annotations

import argparse
import asyncio
import json

from spade_trainer.config import SpadeConfig
from spade_trainer.corpus import open_corpus
from spade_trainer.design_game import AGENTS, DESIGNER, DesignGame
from spade_trainer.generation.generator import Generator, Sampling
from spade_trainer.generation.models import EndpointOptions, open_generator
from spade_trainer.method.seeding import derive


async def play(game: DesignGame, model: Generator, seed: int, max_tokens: int) -> dict[str, object]:
    """Play one game and return the rewards and everything that is known at the end."""
    config = game.config
    game.reset(seed=seed)
    total = dict.fromkeys(AGENTS, 0.0)
    known: dict[str, object] = {}
    turn = 0
    for name in game.agent_iter():
        _, reward, over, _, info = game.last()
        total[name] += reward
        if over:
            known = info if name == DESIGNER else known
            game.step(None)
            continue
        writes_hint = name == DESIGNER and info["phase"] == "hint"
        role = config.designer if name == DESIGNER else config.player
        temperature = config.designer.hint_temperature if writes_hint else role.temperature
        sampling = Sampling(temperature, min(role.max_tokens, max_tokens), seed=derive(seed, turn))
        game.step((await model.generate(game.messages(name), sampling)).text)
        turn += 1
    return {"rewards": total, **known}


async def run(model: str, base_url: str | None, games: int, plays: int, seed: int, max_tokens: int) -> None:
    """Play games and print one JSON line for each."""
    settings = SpadeConfig.from_mapping({"player": {"plays": plays, "hinted_plays": plays}})
    game = DesignGame(settings, corpus=open_corpus())
    generator = open_generator(model, EndpointOptions(base_url=base_url))
    try:
        await generator.prepare()
        for number in range(seed, seed + games):
            print(json.dumps(await play(game, generator, number, max_tokens)))
    finally:
        await generator.close()


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", help="the model's name at the endpoint, or the path of a local model")
    parser.add_argument("--base-url", help="the endpoint, for example http://localhost:8000/v1")
    parser.add_argument("--games", type=int, default=1)
    parser.add_argument("--plays", type=int, default=4, help="plays of each arm")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--max-tokens", type=int, default=8192, help="token limit of every answer")
    given = parser.parse_args()
    asyncio.run(run(given.model, given.base_url, given.games, given.plays, given.seed, given.max_tokens))


if __name__ == "__main__":
    main()
