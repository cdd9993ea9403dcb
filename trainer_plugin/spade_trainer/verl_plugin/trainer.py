"""The trainer mode `spade`: verl's synchronous trainer with the method's round in place of its data loader.

A step of verl is: sample a batch, compute log-probabilities and advantages, update. Here sampling is the round: at some
steps designers write programs first; then players play the set; the plays that count and the designer samples whose reward
is due become the batch. Everything else of the step is verl's. At the end of a step the registry gets all of it in one
transaction, before the checkpoint: a run that dies is continued from its last checkpoint, after the registry has been
rolled back to it.
"""

from __future__ import annotations

import importlib
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transfer_queue as tq
from omegaconf import OmegaConf, open_dict
from transfer_queue import KVBatchMeta
from verl.trainer.ppo.v1.trainer_base import register_trainer
from verl.trainer.ppo.v1.trainer_sync import PPOTrainerSync
from verl.utils import tensordict_utils as tu
from verl.utils.dataset.rl_dataset import collate_fn
from verl.utils.tensordict_utils import list_of_dict_to_tensordict

from spade_envs.contract import Program
from spade_trainer.compatibility import require_compatible
from spade_trainer.config import SpadeConfig
from spade_trainer.design import Design, Job
from spade_trainer.ledger import Ledger
from spade_trainer.method.rewards import Result
from spade_trainer.rounds import Environment, Played, PlayGroup, Round, design_metrics, play_metrics
from spade_trainer.verl_plugin.checkpoint import Checkpoints

POLL_SECONDS = 0.05
PARTITION = "train"


class RoundBuffer:
    """Stands where verl's replay buffer stands: a training batch is a round; waiting is still the buffer's work."""

    def __init__(self, buffer: Any, trainer: SpadeTrainer):
        self.buffer = buffer
        self.trainer = trainer

    def sample(self, global_steps: int, partition_id: str, batch_size: int) -> tuple[KVBatchMeta, dict[str, Any]]:
        """Return the round's batch and metrics for the training partition, verl's own answer for the others."""
        if partition_id != PARTITION:
            return self.buffer.sample(global_steps=global_steps, partition_id=partition_id, batch_size=batch_size)
        return self.trainer.play_round()


@register_trainer("spade")
class SpadeTrainer(PPOTrainerSync):
    """See the module."""

    def __init__(self, config: Any):
        self.spade = SpadeConfig.from_mapping(OmegaConf.to_container(config.spade, resolve=True))
        require_compatible(config, self.spade)
        # verl imports the loops in its workers only, and a plugin that fails there shows as unknown agent loops.
        importlib.import_module("spade_trainer.verl_plugin.loops")
        self.round: Round[dict[str, Any]] = Round(self.spade)
        self.ledger = Ledger(self.spade, model=model_name(config.actor_rollout_ref.model.path))
        self.checkpoints = Checkpoints(config.trainer.default_local_dir)
        self._credits: dict[str, float] = {}
        self._designs: list[tuple[Job, Design]] = []
        self._played: list[Played] = []
        self._began = time.monotonic()
        super().__init__(config)

    # -- verl's hooks --------------------------------------------------------------------------------------------

    def _build_replay_buffer(self) -> Any:
        # Every mode that is not called "sync" switches verl to asynchronous buffering.
        self.trainer_mode = "sync"
        buffer = super()._build_replay_buffer()
        buffer.poll_interval = POLL_SECONDS
        return RoundBuffer(buffer, self)

    def prepare_step(self) -> dict[str, Any]:
        """Submit nothing: the round submits what it needs, in two phases."""
        return {}

    def step(self, metrics: dict[str, Any], timing_raw: dict[str, float]) -> KVBatchMeta:
        """Run verl's step, then write the step to the registry."""
        self._began = time.monotonic()
        batch = super().step(metrics, timing_raw)
        learning = ("old_log_prob", "ref", "adv", "update_actor")
        metrics["spade/seconds/learn"] = sum(timing_raw.get(phase, 0.0) for phase in learning)
        metrics["spade/seconds/step"] = time.monotonic() - self._began
        self.ledger.commit(self.global_steps, self._designs, self._played, metrics)
        return batch

    def _compute_advantage(self, batch: KVBatchMeta, metrics: dict[str, Any]) -> KVBatchMeta:
        """Give designer samples their credit; the estimator has standardised the plays."""
        batch = super()._compute_advantage(batch, metrics)
        keys = [key for key in batch.keys if key in self._credits]
        if keys:
            corrected = self.config.algorithm.rollout_correction.rollout_is is not None
            fields = ["response_mask", *(["rollout_is_weights"] if corrected else [])]
            data = tq.kv_batch_get(keys=keys, partition_id=PARTITION, select_fields=fields)
            masks = data["response_mask"].unbind()
            credit = [self._credits[key] * mask.float() for key, mask in zip(keys, masks, strict=True)]
            nested = torch.nested.as_nested_tensor(credit, layout=torch.jagged)
            put = tu.get_tensordict({"advantages": nested, "returns": nested})
            tq.kv_batch_put(keys=keys, partition_id=PARTITION, fields=put)
            metrics.update(self._importance(data, masks))
        return batch

    def _get_required_batch_multiple(self, dp_size: int) -> int:
        # A step's batch is what was played and released; pad only as far as ranks, updates and micro-batches divide it.
        actor = self.config.actor_rollout_ref.actor
        micro = 1 if actor.use_dynamic_bsz else actor.ppo_micro_batch_size_per_gpu
        return dp_size * self.spade.updates_per_step * micro

    def _balance_batch(self, batch: KVBatchMeta, metrics: dict[str, Any], *args: Any, **kwargs: Any) -> KVBatchMeta:
        """Sort each rank's rows by length: without packing, a micro-batch is as long as its longest row."""
        batch = super()._balance_batch(batch, metrics, *args, **kwargs)
        if self.spade.updates_per_step == 1 and not self.config.actor_rollout_ref.actor.use_dynamic_bsz:
            share = len(batch) // (max(self.actor_rollout_wg._dispatch_info["actor"]) + 1)
            lengths = [tag["seq_len"] for tag in batch.tags]
            batch.reorder(sorted(range(len(batch)), key=lambda i: (i // share, lengths[i], batch.keys[i])))
        return batch

    def _update_actor(self, batch: KVBatchMeta, metrics: dict[str, Any]) -> KVBatchMeta:
        with open_dict(self.config):
            self.config.actor_rollout_ref.actor.ppo_mini_batch_size = len(batch) // self.spade.updates_per_step
        return super()._update_actor(batch, metrics)

    def _save_checkpoint(self) -> None:
        # Ours first: verl's save ends with the file that declares the checkpoint complete.
        state = {"round": self.round.state_dict(), "ledger": self.ledger.state_dict()}
        self.checkpoints.save(self.global_steps, state)
        super()._save_checkpoint()
        self.checkpoints.prune(self.spade.keep_checkpoints)

    def _load_checkpoint(self) -> None:
        if self.config.trainer.resume_mode == "auto":
            self.checkpoints.repair()
        super()._load_checkpoint()
        state = self.checkpoints.load(self.config, self.global_steps)
        if state is not None:
            self.round.load_state_dict(state["round"])
        configuration: Any = OmegaConf.to_container(self.config, resolve=True)
        self.ledger.begin(configuration, self.global_steps, state and state["ledger"])

    # -- the round -----------------------------------------------------------------------------------------------

    def play_round(self) -> tuple[KVBatchMeta, dict[str, Any]]:
        """Design if it is time, play, settle; return the training batch and the step's metrics."""
        step = self.global_steps
        begin = time.monotonic()
        self._designs = self._design(step) if self.round.designs(step) else []
        designed = time.monotonic()
        keys, tags = self._play(step)
        metrics = play_metrics(self.round.environments, self._played)
        if self.round.designs(step):
            metrics |= design_metrics([design for _, design in self._designs], self.round.environments)
        released = self._settle(step, len(keys), metrics)
        metrics |= {
            "spade/seconds/design": designed - begin,
            "spade/seconds/play": time.monotonic() - designed,
            "spade/designer/held": len(self.round.samples.waiting),
            "spade/trained/plays": len(keys),
            "spade/trained/programs": len(released[0]),
        }
        return KVBatchMeta(partition_id=PARTITION, keys=keys + released[0], tags=tags + released[1]), metrics

    def _design(self, step: int) -> list[tuple[Job, Design]]:
        """Fill the slots of a new set with designs and replays."""
        skills, replays = self.round.slots(step)
        jobs = self.ledger.jobs(step, skills, self._fits)
        results = self._write(jobs)
        environments = []
        for design, _ in results:
            attempt = design.accepted
            if attempt is not None:
                program = Program.from_source(attempt.source)
                environments.append(
                    Environment(program.id, program.source, design.skill, design.hint, attempt.max_turns)
                )
        missing = self.spade.environments - len({one.id for one in environments})
        if not self.spade.replay.fill and environments:
            missing = min(missing, replays)
        environments += self.ledger.replays(step, missing, exclude=[one.id for one in environments])
        self.round.new_set(environments)
        by_id = {one.id: one for one in self.round.environments}
        for design, payloads in results:
            if self.spade.designer.mode == "trained":
                attempt = design.accepted
                home = by_id[Program.from_source(attempt.source).id] if attempt is not None else None
                self.round.hold(step, design, home, payloads)
        return list(zip(jobs, [design for design, _ in results], strict=True))

    def _write(self, jobs: Sequence[Job]) -> list[tuple[Design, list[dict[str, Any]]]]:
        """Have programs written; return each design with the training payloads of its attempts."""
        if not jobs:
            return []
        if self.spade.designer.mode == "external":
            return [(design, []) for design in self.ledger.external_designs(jobs)]
        config = asdict(self.spade)
        rows = [_row("spade_designer", {"job": asdict(job), "config": config}, 1) for job in jobs]
        batch = self._generate(rows, "d")
        data = tq.kv_batch_get(keys=batch.keys, partition_id=PARTITION)
        tq.kv_clear(keys=batch.keys, partition_id=PARTITION)
        by_slot: dict[int, list[dict[str, Any]]] = {}
        for i, (key, tag) in enumerate(zip(batch.keys, batch.tags, strict=True)):
            fields = {name: data[i][name] for name in data.keys()}  # noqa: SIM118
            payload = {"key": key, "tag": dict(tag), "fields": fields}
            by_slot.setdefault(fields["extra_fields"]["spade"]["slot"], []).append(payload)
        results = []
        for job in jobs:
            payloads = by_slot.get(job.slot, [])
            records = [payload["fields"]["extra_fields"]["spade"] for payload in payloads]
            done = next((record["design"] for record in records if record["design"]), None)
            design = Design.from_dict(done) if done else Design(job.slot, job.skill)
            results.append((design, payloads if done else []))
        return results

    def _play(self, step: int) -> tuple[list[str], list[dict[str, Any]]]:
        """Play the set; return keys and tags of the plays that are trained on: unhinted and scored."""
        groups = self.round.plays(step)
        batch = self._generate([self._player_row(group) for group in groups], "p")
        data = tq.kv_batch_get(keys=batch.keys, partition_id=PARTITION, select_fields=["extra_fields"])
        records = [fields["spade"] for fields in list(data["extra_fields"])]
        self._played = [_played(record) for record in records]
        self.round.take_plays(step, self._played)
        trained = [play.trained for play in self._played]
        if not any(trained):
            trained[0] = True  # verl needs a row; alone in its group it has no advantage
        dropped = [key for key, keep in zip(batch.keys, trained, strict=True) if not keep]
        if dropped:
            tq.kv_clear(keys=dropped, partition_id=PARTITION)
        kept = [(key, tag) for key, tag, keep in zip(batch.keys, batch.tags, trained, strict=True) if keep]
        return [key for key, _ in kept], [tag for _, tag in kept]

    def _settle(self, step: int, agent_samples: int, metrics: dict[str, Any]) -> tuple[list[str], list[dict[str, Any]]]:
        """Publish the designer samples that are due, with their rewards; return their keys and tags."""
        released, dropped = self.round.settle(step, last=step >= self.total_training_steps)
        credits, weight = self.round.credit(released, agent_samples)
        payloads = [one.sample.payload for one in released]
        self._credits = {payload["key"]: credit for payload, credit in zip(payloads, credits, strict=True)}
        metrics["spade/designer/released"], metrics["spade/designer/dropped"] = len(released), dropped
        if not released:
            return [], []
        metrics["spade/designer/weight"] = weight
        metrics["spade/designer/reward"] = float(np.mean([one.reward for one in released]))
        metrics["spade/designer/delay"] = float(np.mean([step - one.sample.step for one in released]))
        rows = []
        for one, payload in zip(released, payloads, strict=True):
            scores = torch.zeros_like(payload["fields"]["response_mask"], dtype=torch.float32)
            scores[-1] = one.reward
            rows.append({**payload["fields"], "rm_scores": scores})
        keys, tags = [payload["key"] for payload in payloads], [payload["tag"] for payload in payloads]
        tq.kv_batch_put(keys=keys, partition_id=PARTITION, fields=list_of_dict_to_tensordict(rows), tags=tags)
        return keys, tags

    def _generate(self, rows: list[dict[str, Any]], mark: str) -> KVBatchMeta:
        """Have the rows generated and wait for all of them. Keys come back in the order of the rows."""
        batch = collate_fn(rows)
        # Keys are split at "_" by verl, so a uid has none; a uid is the name of a group of plays.
        batch["uid"] = np.array([f"{mark}{self.global_steps:06d}x{i:05d}" for i in range(len(rows))], dtype=object)
        batch["index"] = np.arange(len(rows))
        data = tu.get_tensordict(batch)
        tu.assign_non_tensor_data(data, "global_steps", self.global_steps)
        self._submit_batch_to_rollout(data)
        waiting: Any = self.replay_buffer
        done, _ = waiting.buffer.sample(global_steps=self.global_steps, partition_id=PARTITION, batch_size=len(rows))
        order = sorted(range(len(done.keys)), key=lambda i: _place(done.keys[i]))
        return KVBatchMeta(
            partition_id=PARTITION, keys=[done.keys[i] for i in order], tags=[done.tags[i] for i in order]
        )

    def _player_row(self, group: PlayGroup) -> dict[str, Any]:
        player, environment = self.spade.player, group.environment
        job = {
            "environment": environment.id,
            "source": environment.source,
            "hint": environment.hint if group.hinted else None,
            "seeds": list(group.seeds),
            "max_turns": min(player.max_turns, environment.max_turns or player.max_turns),
            "temperature": player.temperature,
            "max_tokens": player.max_tokens,
            "transcripts": player.transcripts,
            "variant": self.spade.prompts,
            "run_seed": self.spade.seed,
        }
        return _row("spade_player", job, len(group.seeds))

    def _fits(self, messages: list[Any]) -> bool:
        tokens = self.tokenizer.apply_chat_template(messages, add_generation_prompt=True, tokenize=True)
        count = len(tokens["input_ids"] if hasattr(tokens, "keys") else tokens)
        return count <= self.config.actor_rollout_ref.rollout.prompt_length

    def _importance(self, data: Any, masks: Sequence[torch.Tensor]) -> dict[str, float]:
        """Return the mean importance weight of the designers' own tokens, and the share at the bound."""
        if "rollout_is_weights" not in data.keys():  # noqa: SIM118
            return {}
        weights = torch.cat(
            [row[mask.bool()] for row, mask in zip(data["rollout_is_weights"].unbind(), masks, strict=True)]
        )
        bound = float(self.config.algorithm.rollout_correction.rollout_is_threshold)
        return {
            "spade/designer/importance_weight": float(weights.mean()),
            "spade/designer/importance_truncated": float((weights >= bound - 1e-6).float().mean()),
            "spade/designer/importance_deviation": float((weights - 1).abs().mean()),
        }


def model_name(path: str) -> str:
    """Return a model's name as it is stored: of a hub, as it is; of a folder, its last part that says something."""
    folder = Path(path)
    if not folder.is_dir():
        return path
    return folder.parent.name if folder.name in ("model", "huggingface", "hf") else folder.name


def _row(agent: str, job: dict[str, Any], n: int) -> dict[str, Any]:
    """Return a prompt row: both roles have the same fields, so that one batch can hold both."""
    return {
        "raw_prompt": [],
        "agent_name": agent,
        "data_source": agent,
        "reward_model": {"style": "spade", "ground_truth": ""},
        "job": job,
        "__rollout_n__": n,
    }


def _place(key: str) -> tuple[str, int, int]:
    uid, session, index = key.rsplit("_", 2)
    return uid, int(session), int(index)


def _played(record: dict[str, Any]) -> Played:
    return Played(
        environment=record["environment"],
        hinted=record["hinted"],
        result=Result(record["seed"], record["ret"], record["outcome"]),
        turns=record["turns"],
        tokens=record["tokens"],
        seconds=record["seconds"],
        fault=record["fault"],
        transcript=record["transcript"],
    )
