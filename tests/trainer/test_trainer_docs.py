"""docs/trainer.md is true: its tables are current, its settings train, its commands compose, its metrics exist."""

import importlib.util
import itertools
import re
import shlex
from pathlib import Path

import pytest
from hydra import compose, initialize_config_dir
from hydra.core.global_hydra import GlobalHydra
from omegaconf import OmegaConf
from verl.trainer.ppo.utils import need_critic, need_reference_policy
from verl.utils.config import validate_config

from spade_trainer import presets
from spade_trainer.compatibility import require_compatible
from spade_trainer.config import SpadeConfig, settings

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "trainer.md"
TEXT = PAGE.read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```", TEXT, re.MULTILINE | re.DOTALL)
PLUGIN = ROOT / "trainer_plugin" / "spade_trainer"


def blocks(language):
    return [body for found, body in BLOCKS if found == language]


def test_its_tables_are_current():
    spec = importlib.util.spec_from_file_location("trainer_tables", ROOT / "docs" / "trainer_tables.py")
    tables = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tables)
    assert tables.render(TEXT) == TEXT, "run `make docs`"
    assert all(f"`{setting.name}`" in TEXT for setting in settings())


def test_the_configuration_of_ones_own_passes_verls_and_our_checks(tmp_path):
    (body,) = blocks("yaml")
    (tmp_path / "my_run.yaml").write_text(body)
    presets.register_resolvers()
    GlobalHydra.instance().clear()
    with initialize_config_dir(str(tmp_path), version_base=None):
        config = compose("my_run")
    spade = SpadeConfig.from_mapping(OmegaConf.to_container(config.spade, resolve=True))
    require_compatible(config, spade)
    validate_config(config, need_reference_policy(config), need_critic(config))
    assert (config.trainer.v1.trainer_mode, config.algorithm.adv_estimator) == ("spade", "spade")
    assert (spade.interval, spade.player.plays) == (8, 8)


def test_every_selfplay_command_composes():
    commands = [
        shlex.split(line.split("#")[0])
        for body in blocks("bash")
        for line in body.replace("\\\n", " ").splitlines()
        if "selfplay" in line
    ]
    assert len(commands) >= 8
    for words in commands:
        preset = words[words.index("--preset") + 1]
        overrides = [value for option, value in itertools.pairwise(words) if option == "--set"]
        presets.compose(preset, overrides)


@pytest.mark.parametrize("body", blocks("python"))
def test_the_python_it_shows_runs(body, capsys):
    exec(compile(body, str(PAGE), "exec"), {})
    assert capsys.readouterr().out.splitlines()[-1] == "extract"


def test_every_metric_is_documented_and_every_documented_one_exists():
    sources = [PLUGIN / "rounds.py", *(PLUGIN / "verl_plugin").glob("*.py")]
    written = set()
    for name in re.findall(r'f?"(spade/[^"]+)"', "\n".join(path.read_text() for path in sources)):
        for suffix in ("", "_hinted") if "{suffix}" in name else ("",):
            full = name.replace("{suffix}", suffix)
            full = full.replace("{attempt.stage}", "<stage>").replace("{slug(skill)}", "<skill>")
            written |= {full.replace("{outcome}", outcome) for outcome in ("cut", "faulty", "timeout")}
    documented = set(re.findall(r"`(spade/[^`]+)`", TEXT))
    assert written == documented
