"""Packages: a wheel that another project installs, and every form of import, once and twice."""

import hashlib
import json
import os
import resource
import subprocess
import sys
import zipfile

import pytest
from click.testing import CliRunner
from registry_samples import filled, plays, source

from spade_envs.cli import main
from spade_envs.contract import Program
from spade_registry import NewEnvironment, Origin, Registry, RegistryError
from spade_registry.exporting import export
from spade_registry.pools import skill_name

SOUND = source("Sound", 99)
ENDLESS = SOUND.replace("self.turn += 1", "self.turn = 0").replace("Sound", "Endless")


def digest(text):
    return hashlib.sha256(text.encode()).hexdigest()


def dump(registry):
    tables = (
        "environments",
        "hints",
        "origins",
        "parents",
        "checks",
        "plays",
        "measurements",
        "steps",
        "standings",
        "runs",
    )
    connection = registry.connection()
    return {table: connection.execute(f"SELECT * FROM {table} ORDER BY 1, 2").fetchall() for table in tables}


def test_an_installed_package_is_found_by_gymnasium_without_a_registry(registry, tmp_path):
    key = registry.add(SOUND, skill="Logical Deduction", max_turns=4, hint="Halve.", license="Apache-2.0")
    wheel = export(registry, [key, "LiarsInn"], tmp_path / "out", name="my-pack", with_hints=True)
    assert wheel.name == "my_pack-0.1.0-py3-none-any.whl"
    site = tmp_path / "site"
    words = [
        sys.executable,
        "-m",
        "pip",
        "install",
        "--quiet",
        "--no-deps",
        "--no-index",
        "--target",
        str(site),
        str(wheel),
    ]
    subprocess.run(words, check=True, capture_output=True)
    script = (
        "import gymnasium, spade_envs; env = gymnasium.make('spade/Sound'); print(env.reset(seed=1)[0]); "
        "from spade_envs.sources import resolve; r = resolve('Sound')\n"
        "print(r.hint, r.max_turns, r.metadata['package'])"
    )
    empty = {**os.environ, "PYTHONPATH": str(site), "SPADE_REGISTRY": str(tmp_path / "none.db")}
    done = subprocess.run([sys.executable, "-c", script], env=empty, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["Guess. A number from 0 to 99 is hidden. \\boxed{n}", "Halve. 4 my_pack"]
    program = next((site / "my_pack" / "programs").glob("Sound*.py"))
    program.write_text(program.read_text() + "# changed\n")
    broken = subprocess.run([sys.executable, "-c", script], env=empty, capture_output=True, text=True, check=False)
    assert "was changed since it was packaged" in broken.stderr


def test_hints_stay_at_home_unless_asked_for_and_the_bytes_are_reproducible(registry, tmp_path):
    key = registry.add(SOUND, hint="SECRET-HINT")
    one, two = (export(registry, [key], tmp_path / folder) for folder in ("a", "b"))
    assert one.read_bytes() == two.read_bytes()
    with zipfile.ZipFile(one) as archive:
        assert all(b"SECRET-HINT" not in archive.read(name) for name in archive.namelist())
    with pytest.raises(RegistryError, match="lower-case"):
        export(registry, [key], tmp_path, name="My Pack")
    with pytest.raises(RegistryError, match="at least one"):
        export(registry, [], tmp_path)


def test_a_wheel_is_imported_with_hints_and_a_second_time_changes_nothing(registry, tmp_path):
    with Registry.open(tmp_path / "other.db") as other:
        key = other.add(SOUND, skill="Logical Deduction", max_turns=3, hint="Halve the range.", license="MIT")
        wheel = export(other, [key], tmp_path, with_hints=True)
    result = registry.import_(wheel)
    assert dict(result.counts) == {"accepted": 1}
    record = registry.get(key)
    assert (record.skill, record.max_turns, record.hint, record.license) == (
        "Logical Deduction",
        3,
        "Halve the range.",
        "MIT",
    )
    before = dump(registry)
    assert dict(registry.import_(wheel).counts) == {"known": 1}
    assert dump(registry) == before


def folder_pool(folder, manifest):
    files = {"games/sound.py": SOUND, "games/endless.py": ENDLESS, "games/changed.py": source("Changed", 50)}
    (folder / "games").mkdir(parents=True)
    for name, text in files.items():
        (folder / name).write_text(text)
    sums = {name: digest(text) for name, text in files.items()} | {"games/changed.py": "0" * 64}
    (folder / "checksums.sha256").write_text("".join(f"{value}  {name}\n" for name, value in sums.items()))
    entries = [
        {"generation": 1, "step": 4, "filename": name.split("/")[1], "skill": skill, "path_in_dataset": name}
        for name, skill in zip(files, ("logical_deduction", "multi-step_workflows", None), strict=True)
    ] + [{"filename": "gone.py", "path_in_dataset": "games/gone.py"}]
    if manifest == "json":
        (folder / "manifest.json").write_text(json.dumps({"summary": {"n": 4}, "games": entries}))
    elif manifest == "jsonl":
        (folder / "manifest.jsonl").write_text("".join(json.dumps(entry) + "\n" for entry in entries))
    return folder


@pytest.mark.parametrize("manifest", ["json", "jsonl", None])
def test_a_folder_of_programs_is_imported_in_all_its_forms(registry, tmp_path, manifest):
    pool = folder_pool(tmp_path / "pool", manifest)
    result = registry.import_(pool, license="CC-BY-4.0")
    refused = {"games/changed.py", "games/gone.py"} if manifest else {"games/changed.py"}
    assert dict(result.counts) == {"accepted": 1, "rejected": 1, "refused": len(refused)}
    reasons = dict(result.problems)
    assert refused < set(reasons)
    assert "the pool states 000000000000" in reasons["games/changed.py"]
    assert "turns" in reasons["games/endless.py"]
    record = registry.get("Sound")
    assert (record.skill, record.license) == ("Logical Deduction" if manifest else None, "CC-BY-4.0")
    row = (
        registry.connection()
        .execute(
            "SELECT import_source, import_checksum FROM origins AS o JOIN environments AS e ON e.id = o.environment "
            "WHERE e.name = 'Sound'"
        )
        .fetchone()
    )
    assert row == ("pool: games/sound.py", digest(SOUND))
    rejected = (
        registry.connection().execute("SELECT status_reason FROM environments WHERE status = 'rejected'").fetchone()
    )
    assert rejected[0].startswith("turns: ")


@pytest.mark.parametrize("form", ["jsonl", "parquet"])
def test_tables_with_a_column_of_code_are_imported(registry, tmp_path, form):
    rows = [
        {"game_id": "1", "file_name": "sound.py", "skill": "spatial-reasoning", "sha256": digest(SOUND), "code": SOUND},
        {"game_id": "2", "file_name": "other.py", "skill": None, "sha256": "f" * 64, "code": source("Other")},
    ]
    path = tmp_path / f"pool.{form}"
    if form == "jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    else:
        pytest.importorskip("pyarrow")
        import pyarrow
        import pyarrow.parquet

        pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), path)
    assert dict(registry.import_(path).counts) == {"accepted": 1, "refused": 1}
    assert registry.get("Sound").skill == "Spatial Reasoning"


def test_a_program_that_needs_mending_is_stored_mended(registry, tmp_path):
    broken = SOUND.replace('return "Guess.', 'return f"Use \\boxed{your answer}.')
    (tmp_path / "broken.py").write_text(broken)
    assert dict(registry.import_(tmp_path / "broken.py").counts) == {"accepted": 1}
    assert "{{your answer}}" in registry.get("Sound").program.source


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("x.txt", "hello", "expected a wheel"),
        ("x.jsonl", "{broken", "line 1"),
        ("x.jsonl", '{"cod": 1}', "column `code`"),
        ("x.whl", "no zip", "not an intact wheel"),
    ],
)
def test_what_cannot_be_imported_is_told_plainly(registry, tmp_path, name, content, message):
    (tmp_path / name).write_text(content)
    with pytest.raises(RegistryError, match=message):
        registry.import_(tmp_path / name)


def test_skills_in_every_spelling():
    assert {skill_name(one) for one in ("multi_step_workflows", "multi-step_workflows", "Multi-Step Workflows")} == {
        "Multi-Step Workflows"
    }
    assert skill_name("basket weaving") == "basket weaving"
    assert skill_name(None) is None


@pytest.fixture
def other(tmp_path):
    """Another registry: two environments with plays of two arms, one rejected, lineage, and a step."""
    path = tmp_path / "other.db"
    with Registry.open(path) as registry:
        ids, run = filled(registry, [("wl", "ww"), ("ll", "wl")])
        child = NewEnvironment(
            source("Child", 40), hint="c", origin=Origin(run=run, step=2, document={"text": "Bees."}, parents=ids)
        )
        bad = NewEnvironment(
            "nothing", status="rejected", status_reason="extract: no class", origin=Origin(run=run, step=2)
        )
        registry.commit_round(run, 2, environments=[child, bad], plays=plays(ids[0], run, 2, "wwc"), metrics={"a": 1.5})
        registry.record_plays(plays(ids[0], None, None, "w") * 2)
    return path


def figures(registry):
    connection = registry.connection()
    queries = (
        "SELECT env_id, status, skill, hint FROM environments ORDER BY env_id",
        "SELECT e.env_id, p.step, p.seed, p.hint IS NOT NULL, p.outcome, p.policy FROM plays p "
        "JOIN environments e ON e.id = p.environment ORDER BY 1, 2, 3, 4, 5",
        "SELECT e.env_id, m.step, m.win_rate, m.regret, m.n, m.cut FROM measurements m "
        "JOIN environments e ON e.id = m.environment ORDER BY 1, 2",
        "SELECT env_id, win_rate, regret, n FROM leaderboard ORDER BY 1",
        "SELECT env_id, parent, document, step FROM lineage WHERE import_source IS NULL ORDER BY 1, 2",
        "SELECT step, metrics FROM steps ORDER BY 1",
        "SELECT uuid FROM runs",
    )
    return [connection.execute(query).fetchall() for query in queries]


def test_a_registry_is_merged_whole_and_a_second_time_changes_nothing(registry, other):
    registry.merge(other)
    with Registry.open(other, readonly=True) as source_registry:
        assert figures(registry) == figures(source_registry)
    before = dump(registry)
    registry.merge(other)
    assert dump(registry) == before


def test_a_merge_adds_what_is_new_to_what_is_there(registry, other):
    mine, _ = filled(registry, [("wwww", "wwww")])
    count = registry.connection().execute("SELECT count(*) FROM plays").fetchone()[0]
    registry.merge(other)
    with Registry.open(other) as source_registry:
        more = source_registry.connection().execute("SELECT count(*) FROM plays").fetchone()[0]
        source_registry.record_plays(plays(mine[0], None, None, "l"))
    assert registry.connection().execute("SELECT count(*) FROM plays").fetchone()[0] == count + more
    registry.merge(other)
    assert registry.connection().execute("SELECT count(*) FROM plays").fetchone()[0] == count + more + 1
    assert registry.connection().execute("PRAGMA foreign_key_check").fetchall() == []
    with pytest.raises(RegistryError, match="into itself"):
        registry.merge(registry.path)


def test_the_commands(tmp_path, other, monkeypatch):
    monkeypatch.setenv("SPADE_REGISTRY", str(tmp_path / "mine.db"))
    run = CliRunner().invoke
    merged = run(main, ["merge", str(other)])
    assert (merged.exit_code, merged.output) == (0, "3 accepted, 0 rejected, 0 known, 0 refused\n"), merged.output
    again = json.loads(run(main, ["import", str(other), "--json"]).stdout)
    assert (again["accepted"], again["known"]) == (0, 3)
    wheel = json.loads(run(main, ["export", "Child", "--to", str(tmp_path), "--json"]).stdout)["wheel"]
    imported = run(main, ["import", wheel, "--registry", str(tmp_path / "third.db")])
    assert imported.output.startswith("1 accepted"), imported.output
    unknown = run(main, ["export", "Chld", "--to", str(tmp_path)])
    assert unknown.exit_code == 2
    assert "Near matches: spade/Child" in unknown.output
    assert Program.from_source(source("Child", 40)).id in run(main, ["list"]).output


@pytest.mark.slow
def test_ten_thousand_programs_are_imported_in_flat_memory(registry, tmp_path):
    path = tmp_path / "many.jsonl"
    with path.open("w") as lines:
        for number in range(10_000):
            lines.write(json.dumps({"file_name": f"{number}.py", "code": source(f"Many{number}", 50 + number)}) + "\n")
    sizes = []

    def tick():
        if not len(sizes) % 100:
            sizes.append(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
        else:
            sizes.append(sizes[-1])

    assert registry.import_(path, on_program=tick).counts["accepted"] == 10_000
    assert sizes[-1] - sizes[1000] < 40 * 1024, "KiB of growth over nine thousand programs"
