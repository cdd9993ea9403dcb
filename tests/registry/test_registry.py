"""What goes in comes out: identity, hints, plays, measurements, runs."""

import math
import threading

import numpy as np
import pytest
from registry_samples import filled, plays, source

from spade_envs.contract import Program
from spade_envs.errors import AmbiguousEnvironment, ProgramError, UnknownEnvironment
from spade_registry import Check, NewEnvironment, Origin, Play, Registry, RegistryError, queries


def rows(registry, query, *values):
    return registry.connection().execute(query, values).fetchall()


def test_the_same_program_is_one_row_whatever_its_line_ends(registry):
    first = registry.add(source(), skill="Logical Deduction")
    again = registry.add(source().replace("\n", "\r\n") + "\n\n")
    assert first == again == Program.from_source(source()).id
    assert rows(registry, "SELECT count(*) FROM environments") == [(1,)]


def test_near_duplicates_are_linked_and_not_doubled(registry):
    first = registry.add(source("Number"))
    renamed = registry.add(source("Another").replace("import re", "import re  # a comment"))
    other = registry.add(source("Third", top=10))
    found = dict(
        rows(
            registry, "SELECT e.env_id, d.env_id FROM environments e LEFT JOIN environments d ON d.id = e.duplicate_of"
        )
    )
    assert found == {first: None, renamed: first, other: None}


def test_an_environment_is_found_by_id_prefix_and_name(registry):
    key = registry.add(source("Number"), skill="Logical Deduction", max_turns=4, hint="Halve the range.")
    program = Program.from_source(source("Number"))
    for query in (
        key,
        key.removeprefix("spade/"),
        program.sha256[:6],
        program.sha256,
        "Number",
        "NumberEnv",
        "spade/Number",
    ):
        record = registry.get(query)
        assert record.program == program
        assert (record.skill, record.max_turns, record.hint) == ("Logical Deduction", 4, "Halve the range.")
    assert registry.get("Nothing") is None
    assert registry.get("0" * 12) is None


def test_a_name_that_fits_two_programs_is_ambiguous(registry):
    registry.add_all([NewEnvironment(source("Number", 9)), NewEnvironment(source("Number", 10))])
    with pytest.raises(AmbiguousEnvironment, match="fits 2 environments"):
        registry.get("Number")


def test_suggestions_look_like_the_query(registry):
    key = registry.add(source("HiddenDigit"))
    registry.add(source("RollingDie"))
    assert registry.suggest("HidenDigit")[0] == key
    assert registry.suggest("spade/idenDigit-000000000000-v0")[0] == key
    with pytest.raises(UnknownEnvironment, match=key):
        registry.retire("HidenDigit", "test")


def test_the_newest_hint_that_does_not_leak_is_in_use(registry):
    key = registry.add(source(), hint="first")
    registry.add_hint(key, "second")
    registry.add_hint(key, "the answer is 4", leak="it contains the answer")
    assert registry.get(key).hint == "second"
    assert len(rows(registry, "SELECT * FROM hints")) == 3


def test_a_rejected_program_is_kept_with_its_reason_and_not_offered(registry):
    registry.add("no class here", status="rejected", checks=[Check("extract", False, "no class was found")])
    assert rows(registry, "SELECT status, status_reason, class_name FROM environments") == [
        ("rejected", "extract: no class was found", "")
    ]
    assert list(registry.records()) == []
    with pytest.raises(ProgramError):
        registry.add("no class here either")


def test_a_rejected_program_that_passes_later_becomes_accepted(registry):
    key = registry.add(source(), status="rejected", checks=[Check("cost", False, "slow")])
    assert registry.get(key) is None
    registry.add(source(), checks=[Check("cost", True)])
    assert registry.get(key).metadata["status"] == "accepted"
    assert rows(registry, "SELECT stage, passed FROM checks") == [("cost", 1)]


def test_a_retired_environment_stays_playable_by_its_id_only(registry):
    key = registry.add(source())
    assert registry.retire("Number", "too easy by now") == key
    assert registry.get(key).program.id == key
    assert registry.get("Number") is None
    assert list(registry.ids()) == []
    assert registry.graveyard()[0].reason == "too easy by now"


def test_origins_keep_document_and_parents(registry):
    parent = registry.add(source("Parent", 3))
    run = registry.start_run("nano", {}, None)
    origin = Origin(
        run=run, step=2, attempt=1, designer="m", document={"text": "Bees.", "title": "Bees"}, parents=[parent]
    )
    key = registry.add(source("Child", 4), origin=origin)
    registry.add(source("Child", 4), origin=origin)
    found = rows(registry, "SELECT env_id, parent, document, run, step FROM lineage WHERE env_id = ?", key)
    assert found == [(key, parent, "Bees", run, 2)]
    assert [document.text for document in registry.documents()] == ["Bees."]


def test_measurements_pair_the_arms_by_seed_and_leave_out_what_does_not_count(registry):
    # Unhinted w l l c; hinted w w l w: pairs are seeds 0, 1, 2, with differences 0, 1, 0.
    (key,), run = filled(registry, [("wllc", "wwlw")])
    found = registry.measurements(key)[0]
    assert (found.n, found.n_hinted, found.n_pairs, found.cut) == (3, 4, 3, 1)
    assert found.win_rate == pytest.approx(1 / 3)
    assert found.win_rate_hinted == pytest.approx(3 / 4)
    assert found.regret == pytest.approx(1 / 3)
    assert found.regret_se == pytest.approx(math.sqrt((2 / 9) * 1.5 / 3))
    assert found.learnability == pytest.approx(2 / 9)
    assert [play.outcome for play in registry.plays(key, run=run) if not play.hinted] == ["won", "lost", "lost", "cut"]


def test_plays_that_do_not_count_never_become_a_win_rate_of_zero(registry):
    (key,), _ = filled(registry, [("cft", "")])
    found = registry.measurements(key)[0]
    assert (found.win_rate, found.regret, found.n) == (None, None, 0)
    assert (found.cut, found.faulty, found.timeout) == (1, 1, 1)


def test_the_leaderboard_is_sorted_by_regret_and_the_graveyard_gives_reasons(registry):
    ids, run = filled(registry, [("llll", "wwww"), ("wlwl", "wwwl"), ("wwwwwwwwwwww", "wwww"), ("ff", "")])
    assert [row.id for row in registry.leaderboard(run=run, n=2)] == ids[:2]
    assert registry.leaderboard()[0].regret == 1.0
    reasons = {row.id: row.reason for row in registry.graveyard(run=run)}
    assert reasons == {
        ids[0]: "too hard (won 0 of 4 plays)",
        ids[2]: "too easy (won 12 of 12 plays)",
        ids[3]: "faulty (2 plays)",
    }


def test_the_frontier_uses_the_interval_and_not_the_point(registry):
    filled(registry, [("wl", "ww"), ("wl" * 20, "ww")])
    found = rows(registry, "SELECT n FROM frontier")
    assert found == [(40,)], "two plays say nothing about a win rate"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"outcome": "draw"}, "an outcome is one of"),
        ({"ret": float("nan")}, r"a return is a number in \[-1, 1\]"),
        ({"ret": 1.5}, r"a return is a number in \[-1, 1\]"),
        ({"ret": 0.0}, "is not won"),
        ({"hinted": True}, "has no hint"),
    ],
)
def test_a_play_that_contradicts_itself_is_refused_and_nothing_is_written(registry, change, message):
    key = registry.add(source())
    good = Play(key, None, None, "m", 0, False, 1.0, "won")
    values = {
        "environment": key,
        "run": None,
        "step": None,
        "policy": "m",
        "seed": 0,
        "hinted": False,
        "ret": 1.0,
        "outcome": "won",
    }
    with pytest.raises(RegistryError, match=message):
        registry.record_plays([good, Play(**{**values, **change})])
    assert list(registry.plays(key)) == []


def test_a_step_is_stored_once_and_whole(registry):
    run = registry.start_run("nano", {"hash": "abc"}, "folder")
    new = [NewEnvironment(source(), hint="h", origin=Origin(run=run, step=1))]
    key = Program.from_source(source()).id
    registry.commit_round(run, 1, environments=new, plays=plays(key, run, 1, "wl", "ww"), metrics={"a": 0.5})
    with pytest.raises(RegistryError, match="stored already"):
        registry.commit_round(run, 1, environments=[NewEnvironment(source("Other"))])
    with pytest.raises(RegistryError, match="finite number"):
        registry.commit_round(run, 2, environments=[NewEnvironment(source("Other"))], metrics={"a": float("nan")})
    assert list(registry.ids()) == [key]
    assert [(step.step, step.metrics) for step in registry.steps(run)] == [(1, {"a": 0.5})]
    assert registry.steps(run, after=1) == []


def test_runs_are_found_by_what_was_asked(registry):
    run = registry.start_run("nano", {"hash": "abc", "x": 1}, None)
    assert registry.latest_run("nano", "abc", "running").id == run
    registry.finish_run(run)
    assert registry.latest_run("nano", "abc", "running") is None
    assert registry.latest_run("nano", "abc").state == "finished"
    assert registry.run(run).configuration["x"] == 1
    with pytest.raises(RegistryError, match="has no run 77"):
        registry.run(77)
    with pytest.raises(RegistryError, match="state of a run"):
        registry.finish_run(run, "done")


def dump(registry):
    """Everything in the registry but its clocks and the run's uuid."""
    tables = ("environments", "hints", "origins", "parents", "checks", "plays", "measurements", "steps", "standings")
    found = {}
    for table in tables:
        names = [row[1] for row in rows(registry, f"PRAGMA table_info({table})") if not row[1].endswith("_at")]
        found[table] = rows(registry, f"SELECT {', '.join(names)} FROM {table} ORDER BY 1, 2")
    return found


def test_a_rollback_leaves_the_registry_as_if_the_run_had_stopped_there(registry):
    filled(registry, [("wl", "ww"), ("ll", "wl")])
    _, run = filled(registry, [("wl", "wl")])
    before = dump(registry)
    shared, fresh = source("Number0", 9), source("Fresh", 77)
    new = [NewEnvironment(one, hint="another", origin=Origin(run=run, step=2)) for one in (shared, fresh)]
    ids = [Program.from_source(one).id for one in (shared, fresh)]
    registry.commit_round(
        run,
        2,
        environments=new,
        plays=[play for key in ids for play in plays(key, run, 2, "ww", "lw")],
        metrics={"a": 1},
    )
    assert dump(registry) != before
    registry.rollback_run(run, 1)
    assert dump(registry) == before


def test_memory_shows_high_regret_inside_the_band_and_names_what_is_too_easy(registry):
    outcomes = [("llll", "wwww"), ("lllw", "wwww"), ("lwlw", "wwww"), ("wwww", "wwww"), ("wwwl", "wwww")]
    ids, run = filled(registry, outcomes)
    memory = registry.memory("Logical Deduction", 3, 2, np.random.default_rng(0), run=run)
    assert [one.id for one in memory.seeds] == [ids[1], ids[2], ids[4]]
    assert [one.regret for one in memory.seeds] == [0.75, 0.5, 0.25]
    assert {one.id: one.reason for one in memory.negatives} == {
        ids[0]: "too hard, won 0 % of the time",
        ids[3]: "too easy, won 100 % of the time",
    }
    assert registry.memory("Optimization", 2, 1, np.random.default_rng(0), run=run).seeds == []
    newest = registry.memory("Logical Deduction", 9, 9, np.random.default_rng(0), run=run, capacity=2)
    assert {one.id for one in (*newest.seeds, *newest.negatives)} == set(ids[3:])


def test_search_finds_words_of_program_opening_and_hint(registry):
    key = registry.add(source(), hint="Bisect the interval.", observation="A beacon on a cliff.")
    registry.add(source("Other", 3), observation="A lamp.")
    for query in ("beacon", "bisecting", "hidden cliff", "Number"):
        assert registry.search(query)[0].id == key
    assert registry.search('un"balanced (quote') == []


def test_a_closed_context_and_a_read_only_registry_refuse_to_write(path):
    with Registry.open(path) as registry:
        key = registry.add(source())
    with Registry.open(path, readonly=True) as registry:
        assert registry.get(key) is not None
        with pytest.raises(RegistryError, match="read-only"):
            registry.add(source("Other"))
    with pytest.raises(RegistryError, match="there is no registry"):
        Registry.open(path.with_name("missing.db"), readonly=True)


def test_half_a_character_that_a_model_wrote_is_stored_as_a_question_mark(registry):
    key = registry.add(source(), hint="Halve \ud83d it.", observation="\udc00")
    play = Play(key, None, None, "m", 0, False, 1.0, "won", transcript="a\ud800b")
    registry.record_plays([play])
    record = registry.get(key)
    assert record.hint == "Halve ? it."
    assert next(registry.plays(key)).transcript == "a?b"


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (
            lambda registry, key: registry.record_plays([Play(key, None, None, "m", 2**63, False, 1.0, "won")]),
            "64 bits",
        ),
        (lambda registry, key: registry.run(2**70), "64 bits"),
        (lambda registry, key: registry.get("spade/\ud800"), "Unicode"),
    ],
)
def test_what_sqlite_cannot_hold_is_refused_in_a_sentence(registry, ask, message):
    key = registry.add(source())
    with pytest.raises(RegistryError, match=message):
        ask(registry, key)


def test_search_without_a_word_finds_nothing_and_quotes_what_fts_would_read_as_syntax(registry):
    registry.add(source())
    for query in ("", '"', "-", "NEAR(", "hidden* OR ("):
        assert registry.search(query) == []


def test_rejected_programs_do_not_crowd_out_what_a_search_finds(registry):
    for number in range(30):
        registry.add(source("Bad", 10 + number, text="zebra zebra zebra"), status="rejected")
    key = registry.add(source("Good", text="zebra"))
    assert [found.id for found in registry.search("zebra", 3)] == [key]


def test_an_iteration_does_not_hold_the_registry(registry, monkeypatch):
    monkeypatch.setattr(queries, "PAGE", 2)
    ids = registry.add_all([NewEnvironment(source(f"Number{i}", 9 + i)) for i in range(5)])
    listed = registry.ids()
    assert next(listed) == ids[0]
    worker = threading.Thread(target=registry.add, args=(source("Late", 99),))
    worker.start()
    worker.join(20)
    assert not worker.is_alive(), "another thread writes while this one iterates"
    assert list(listed) == [*ids[1:], registry.find_id("Late")]
    assert len(list(registry.records())) == 6


def test_a_rollback_keeps_what_another_run_refers_to(registry):
    ids, run = filled(registry, [("wl", "ww"), ("wl", "ww")], step=5)
    registry.add(source("Twin", 9), origin=Origin(import_source="pool"))
    registry.add(
        source("Child", 70), origin=Origin(run=registry.start_run("other", {}, None), step=1, parents=[ids[1]])
    )
    registry.record_plays(plays(ids[1], None, None, "", "w"))
    registry.rollback_run(run, 4)
    assert set(ids) < set(registry.ids())
    assert registry.get(ids[1]).hint == "hint 1", "somebody's plays were given it"
    assert registry.measured() == 0
