"""Does self-play teach anything? nano after a SPADE run, against no training and against a fixed pool of environments.

    python benchmarks/learning.py --seeds 3 --out learning.json

For each seed three policies are measured on held-out programs that neither the warm start nor any run has seen:
(a) `none`: the shipped model; (b) `fixed`: the same number of updates as (c) on environments that the untrained designer
wrote before, drawn uniformly; (c) `spade`: the preset `nano`. Both runs are started with the user's own command, in
registries of their own. The policies play the same seeds, without hints. Reported are means over the seeds with 95 %
intervals (Student's t), and paired differences. Whatever comes out is what is reported.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import torch

from spade_envs.contract import Program
from spade_envs.sandbox import Pool
from spade_registry import Registry
from spade_trainer.nano import MODEL
from spade_trainer.nano.evaluate import load, win_rates
from spade_trainer.nano.heldout import held_out_games

T_95 = {2: 12.706, 3: 4.303, 4: 3.182, 5: 2.776, 6: 2.571, 8: 2.365, 10: 2.262}
"""Student's t for a two-sided 95 % interval, by number of seeds."""
POOL_SETTINGS = ("actor_rollout_ref.actor.optim.lr=0.0", "spade.replay.probability=0.0", "spade.replay.fill=false")
FIXED_SETTINGS = ("spade.designer.mode=none", "spade.replay.score=uniform")


def selfplay(registry: Path, seed: int, steps: int, *settings: str) -> tuple[Path, float]:
    """Run the command; the run's folder, and the seconds it took. A run that a kept folder holds is not made again."""
    done = finished(registry, seed, steps, settings)
    if done is not None:
        return done, math.nan
    words = [sys.executable, "-m", "spade_envs", "selfplay", "--preset", "nano", "--registry", str(registry)]
    words += ["--seed", str(seed), "--steps", str(steps)]
    for setting in (*settings, f"trainer.save_freq={steps}"):
        words += ["--set", setting]
    begin = time.monotonic()
    process = subprocess.run(words, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    folder = finished(registry, seed, steps, settings)
    if process.returncode or folder is None:
        raise SystemExit(f"{' '.join(words)}\n{process.stdout}")
    return folder, time.monotonic() - begin


def finished(registry: Path, seed: int, steps: int, settings: tuple[str, ...]) -> Path | None:
    """Return the folder of the finished run of these settings in a registry, if there is one."""
    if not registry.exists():
        return None
    wanted = {*settings, f"trainer.save_freq={steps}", f"trainer.total_training_steps={steps}", f"spade.seed={seed}"}
    with Registry.open(registry, readonly=True) as store:
        runs = [
            one for one in store.runs() if one.state == "finished" and set(one.configuration["overrides"]) == wanted
        ]
    return Path(runs[-1].directory or "") if runs else None


def trained(folder: Path, steps: int) -> Any:
    """The model at the end of a run: its weights in the shipped architecture."""
    model = load(MODEL)
    saved = folder / "checkpoints" / f"global_step_{steps}" / "actor" / "model_world_size_1_rank_0.pt"
    state = torch.load(saved, weights_only=False)
    whole = {
        name: (tensor.full_tensor() if hasattr(tensor, "full_tensor") else tensor) for name, tensor in state.items()
    }
    model.engine.load({name: tensor.float() for name, tensor in whole.items()})
    return model


def measure(model: Any, plays: int, seed: int) -> dict[str, float]:
    """Mean win rates over the held-out programs, without and with the hints of the demonstrations."""
    games = [(Program.from_source(one.source), one.hints[0]) for one in held_out_games()]
    with Pool(max_workers=len(games) + 8) as pool:
        unhinted = win_rates(model, pool, [(program, None) for program, _ in games], plays, seed=seed)
        hinted = win_rates(model, pool, games, plays, seed=seed)
    return {"unhinted": statistics.fmean(unhinted), "hinted": statistics.fmean(hinted)}


def interval(values: list[float]) -> dict[str, float]:
    """Mean and half the width of its 95 % interval."""
    n = len(values)
    half = T_95[n] * statistics.stdev(values) / math.sqrt(n) if n > 1 else math.nan
    return {"mean": statistics.fmean(values), "half": half}


def one_seed(seed: int, steps: int, pool_size: int, plays: int, folder: Path) -> dict[str, Any]:
    """All three policies for one seed."""
    result: dict[str, Any] = {"seed": seed, "none": measure(load(MODEL), plays, seed)}
    spade, seconds = selfplay(folder / f"spade{seed}.db", seed, steps)
    result["spade"] = measure(trained(spade, steps), plays, seed) | {"seconds": seconds}
    registry = folder / f"fixed{seed}.db"
    selfplay(registry, 1000 + seed, 1, *POOL_SETTINGS, f"spade.environments_per_skill={pool_size // 3}")
    fixed, seconds = selfplay(registry, seed, steps, *FIXED_SETTINGS)
    result["fixed"] = measure(trained(fixed, steps), plays, seed) | {"seconds": seconds}
    with Registry.open(registry, readonly=True) as store:
        result["fixed"]["pool"] = store.measured()
    return result


def report(rows: list[dict[str, Any]], steps: int, plays: int) -> dict[str, Any]:
    """Means, intervals and paired differences over the seeds."""
    policies = ("none", "fixed", "spade")
    unhinted = {name: [row[name]["unhinted"] for row in rows] for name in policies}
    pairs = {"spade - none": ("spade", "none"), "spade - fixed": ("spade", "fixed"), "fixed - none": ("fixed", "none")}
    return {
        "seeds": len(rows),
        "steps": steps,
        "plays": plays,
        "programs": len(held_out_games()),
        "unhinted": {name: interval(values) for name, values in unhinted.items()},
        "hinted": {name: interval([row[name]["hinted"] for row in rows]) for name in policies},
        "differences": {
            name: interval([a - b for a, b in zip(unhinted[one], unhinted[other], strict=True)])
            for name, (one, other) in pairs.items()
        },
        "rows": rows,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=3, choices=sorted({1, *T_95}), help="number of seeds")
    parser.add_argument("--steps", type=int, default=40, help="updates of each run")
    parser.add_argument("--pool", type=int, default=24, help="programs that the untrained designer is asked for")
    parser.add_argument("--plays", type=int, default=16, help="plays of each held-out program")
    parser.add_argument("--out", type=Path, default=None, help="JSON file for the result")
    parser.add_argument("--folder", type=Path, default=None, help="where the registries and runs are kept")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = arguments.folder or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        rows = []
        for seed in range(arguments.seeds):
            rows.append(one_seed(seed, arguments.steps, arguments.pool, arguments.plays, folder))
            result = report(rows, arguments.steps, arguments.plays)
            if arguments.out:
                arguments.out.write_text(json.dumps(result, indent=2) + "\n")
            print(json.dumps({name: rows[-1][name] for name in ("seed", "none", "fixed", "spade")}), flush=True)
    for title in ("unhinted", "hinted", "differences"):
        print(f"\n{title}")
        for name, value in result[title].items():
            print(f"  {name:<14} {100 * value['mean']:6.1f} % +- {100 * value['half']:.1f}")


if __name__ == "__main__":
    main()
