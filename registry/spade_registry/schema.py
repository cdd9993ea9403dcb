"""The schema of a registry file: its tables, views and indices, version by version, with a comment for each column.

The file is an interface that people open with their own tools, so the comments are part of what is stored:
`sqlite-utils schema` and `.schema` show them. A change is a new entry in `MIGRATIONS`; what has been released never
changes. Integer keys, `environment` and `run` as foreign keys, and full-text tables called `<table>_fts` follow the
conventions of sqlite-utils.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable
from typing import NamedTuple

APPLICATION_ID = 0x53504445
"""Marks a file as a registry (`PRAGMA application_id`): the letters SPDE."""

TABLES = (
    """
CREATE TABLE runs (
  id INTEGER PRIMARY KEY,
  uuid TEXT NOT NULL UNIQUE, -- the same run in another file has the same uuid
  preset TEXT NOT NULL, -- what kind of run: a preset's name, `design` or `measure`
  configuration TEXT NOT NULL DEFAULT '{}', -- JSON object of all settings
  config_hash TEXT NOT NULL, -- tells runs of other settings apart; the same command continues its unfinished run
  versions TEXT NOT NULL DEFAULT '{}', -- JSON object: distribution -> version
  directory TEXT, -- folder with logs, checkpoints and the report
  state TEXT NOT NULL DEFAULT 'running', -- running, finished or failed
  started_at TEXT NOT NULL, -- UTC, ISO 8601
  ended_at TEXT -- UTC, ISO 8601; null while running
)""",
    """
CREATE TABLE documents (
  id INTEGER PRIMARY KEY,
  sha256 TEXT NOT NULL UNIQUE, -- of the text
  title TEXT, -- first heading, or the file's name; null where unknown
  text TEXT NOT NULL, -- the whole document
  source TEXT, -- corpus that the document came from
  license TEXT, -- SPDX identifier where known
  created_at TEXT NOT NULL -- UTC, ISO 8601
)""",
    """
CREATE TABLE environments (
  id INTEGER PRIMARY KEY,
  env_id TEXT NOT NULL UNIQUE, -- Gymnasium id: spade/<name>-<first 12 hex digits of sha256>-v0
  name TEXT NOT NULL, -- class name without Env
  class_name TEXT NOT NULL, -- class that is instantiated; empty where a rejected program has none
  sha256 TEXT NOT NULL UNIQUE, -- of the normalised source
  ast_sha256 TEXT, -- of the program without names of classes, comments, docstrings, annotations and layout
  duplicate_of INTEGER REFERENCES environments(id), -- first environment with the same ast_sha256; null for the first
  source TEXT NOT NULL, -- normalised source; never changes
  kind TEXT NOT NULL CHECK (kind IN ('game', 'tool_use', 'multi_agent')), -- game, tool_use or multi_agent
  skill TEXT, -- what it trains; null where unknown
  status TEXT NOT NULL CHECK (status IN ('accepted', 'rejected', 'retired')), -- accepted, rejected or retired
  status_reason TEXT, -- why it was rejected or retired
  max_turns INTEGER, -- turn limit of an episode; null: the program's own
  license TEXT, -- SPDX identifier where known
  observation TEXT, -- opening observation with seed 0
  hint TEXT, -- hint in use: the newest row of hints that passed the leak check
  created_at TEXT NOT NULL -- UTC, ISO 8601
)""",
    """
CREATE TABLE hints (
  id INTEGER PRIMARY KEY,
  environment INTEGER NOT NULL REFERENCES environments(id) ON DELETE CASCADE, -- environment that it is about
  text TEXT NOT NULL, -- what the player is shown in the hinted arm
  sha256 TEXT NOT NULL, -- of the text
  author TEXT, -- model, or person, that wrote it
  prompt_version TEXT, -- prompt that asked for it
  leak TEXT, -- why the leak check refused it; null: it passed
  run INTEGER REFERENCES runs(id), -- run that wrote it
  step INTEGER, -- step of that run
  created_at TEXT NOT NULL -- UTC, ISO 8601
)""",
    """
CREATE TABLE origins (
  id INTEGER PRIMARY KEY,
  environment INTEGER NOT NULL REFERENCES environments(id) ON DELETE CASCADE, -- environment that came to be
  run INTEGER REFERENCES runs(id), -- run that designed it; null for an import
  step INTEGER, -- step of that run
  attempt INTEGER, -- attempt within its slot, from 1
  designer TEXT, -- model that wrote it
  checkpoint TEXT, -- checkpoint of that model
  document INTEGER REFERENCES documents(id), -- corpus document that grounded it
  prompt_version TEXT, -- prompt that asked for it
  import_source TEXT, -- where an imported program came from
  import_checksum TEXT, -- SHA-256 of the imported file as it was found
  created_at TEXT NOT NULL -- UTC, ISO 8601
)""",
    """
CREATE TABLE parents (
  origin INTEGER NOT NULL REFERENCES origins(id) ON DELETE CASCADE, -- design that was shown it
  environment INTEGER NOT NULL REFERENCES environments(id) ON DELETE CASCADE, -- seed that the designer was shown
  PRIMARY KEY (origin, environment)
) WITHOUT ROWID""",
    """
CREATE TABLE checks (
  id INTEGER PRIMARY KEY,
  environment INTEGER NOT NULL REFERENCES environments(id) ON DELETE CASCADE, -- program that was checked
  stage TEXT NOT NULL, -- stage of the gate
  passed INTEGER NOT NULL, -- 1 or 0
  message TEXT, -- why it failed, or what was found
  warnings TEXT, -- JSON array of remarks that do not reject; null: none
  seconds REAL -- wall clock
)""",
    """
CREATE TABLE plays (
  id INTEGER PRIMARY KEY,
  environment INTEGER NOT NULL REFERENCES environments(id) ON DELETE CASCADE, -- environment that was played
  hint INTEGER REFERENCES hints(id) ON DELETE CASCADE, -- hint that was shown; null: unhinted
  run INTEGER REFERENCES runs(id), -- run that played
  step INTEGER, -- step of that run
  policy TEXT, -- model that played
  seed INTEGER, -- of the reset; both arms use the same seeds
  return REAL, -- last reward in [-1, 1]; 0 if the episode never terminated
  won INTEGER, -- 1 or 0; null where the play does not count (cut, faulty, timeout)
  turns INTEGER, -- actions taken
  outcome TEXT NOT NULL CHECK (outcome IN ('won', 'lost', 'cut', 'faulty', 'timeout')), -- the last three do not count
  tokens INTEGER, -- tokens that the policy wrote
  seconds REAL, -- wall clock
  fault TEXT, -- what the program did wrong
  transcript TEXT -- conversation, JSON or text; null where it was not kept
)""",
    """
CREATE TABLE measurements (
  id INTEGER PRIMARY KEY,
  environment INTEGER NOT NULL REFERENCES environments(id) ON DELETE CASCADE, -- environment that was measured
  run INTEGER NOT NULL REFERENCES runs(id), -- run whose plays count
  step INTEGER NOT NULL, -- step whose plays count
  win_rate REAL, -- unhinted arm; null: no play counted
  win_rate_se REAL, -- standard error
  win_rate_hinted REAL, -- hinted arm
  win_rate_hinted_se REAL, -- standard error
  mean_return REAL, -- unhinted arm
  mean_return_hinted REAL, -- hinted arm
  regret REAL, -- mean over common seeds of hinted minus unhinted return; null: no common seed
  regret_se REAL, -- standard error of that paired difference; null below two pairs
  learnability REAL, -- p * (1 - p) of the unhinted win rate p
  n INTEGER NOT NULL, -- unhinted plays that count
  n_hinted INTEGER NOT NULL, -- hinted plays that count
  n_pairs INTEGER NOT NULL, -- seeds in both arms
  cut INTEGER NOT NULL, -- plays whose answer hit its token limit; not counted
  faulty INTEGER NOT NULL, -- plays in which the program failed; not counted
  timeout INTEGER NOT NULL, -- plays in which the program took too long; not counted
  created_at TEXT NOT NULL, -- UTC, ISO 8601
  UNIQUE (environment, run, step)
)""",
    """
CREATE TABLE steps (
  run INTEGER NOT NULL REFERENCES runs(id) ON DELETE CASCADE, -- run that took it
  step INTEGER NOT NULL, -- number within the run, from 1
  metrics TEXT NOT NULL, -- JSON object: name -> number
  created_at TEXT NOT NULL, -- UTC, ISO 8601
  PRIMARY KEY (run, step)
)""",
)

STANDINGS = """
CREATE TABLE standings (
  environment INTEGER NOT NULL REFERENCES environments(id) ON DELETE CASCADE, -- environment that stands so
  run INTEGER NOT NULL REFERENCES runs(id) ON DELETE CASCADE, -- run whose plays count
  latest INTEGER NOT NULL, -- 1 in the row of the newest run that measured the environment, else 0
  measurement INTEGER NOT NULL, -- newest row of measurements in it: orders standings by recency
  step INTEGER NOT NULL, -- first step of the window: the last one in which both arms were played
  last_step INTEGER NOT NULL, -- last step of the window
  win_rate REAL, -- unhinted, over the window; null: no play counted
  win_low REAL, -- lower end of its 95 % Wilson interval
  win_high REAL, -- upper end
  n INTEGER NOT NULL, -- unhinted plays that count
  win_rate_hinted REAL, -- of the window's first step
  n_hinted INTEGER NOT NULL, -- hinted plays that count
  regret REAL, -- of the window's first step, where both arms were played
  regret_se REAL, -- its standard error
  learnability REAL, -- p * (1 - p) of the win rate p
  cut INTEGER NOT NULL, -- cut plays in the window
  faulty INTEGER NOT NULL, -- faulty plays in the window
  timeout INTEGER NOT NULL, -- timed-out plays in the window
  PRIMARY KEY (environment, run)
) WITHOUT ROWID"""

INDICES = (
    "CREATE INDEX idx_environments_name ON environments(name)",
    "CREATE INDEX idx_environments_class_name ON environments(class_name)",
    "CREATE INDEX idx_environments_ast_sha256 ON environments(ast_sha256)",
    "CREATE INDEX idx_environments_duplicate_of ON environments(duplicate_of)",
    "CREATE INDEX idx_environments_status_skill ON environments(status, skill)",
    "CREATE UNIQUE INDEX idx_hints_environment_sha256 ON hints(environment, sha256)",
    "CREATE INDEX idx_hints_run_step ON hints(run, step)",
    "CREATE INDEX idx_origins_environment ON origins(environment)",
    "CREATE INDEX idx_origins_run_step ON origins(run, step)",
    "CREATE INDEX idx_origins_document ON origins(document)",
    "CREATE INDEX idx_parents_environment ON parents(environment)",
    "CREATE INDEX idx_checks_environment ON checks(environment)",
    "CREATE INDEX idx_plays_environment_run_step ON plays(environment, run, step)",
    "CREATE INDEX idx_plays_run_step ON plays(run, step)",
    "CREATE INDEX idx_plays_hint ON plays(hint) WHERE hint IS NOT NULL",
    "CREATE INDEX idx_measurements_run_step ON measurements(run, step)",
    "CREATE INDEX idx_runs_preset_config_hash ON runs(preset, config_hash)",
)
STANDING_INDICES = (
    "CREATE INDEX idx_standings_run_measurement ON standings(run, measurement)",
    "CREATE INDEX idx_standings_latest_regret ON standings(regret) WHERE latest = 1",
    "CREATE INDEX idx_standings_latest_measurement ON standings(measurement) WHERE latest = 1",
)
FULL_TEXT = {"environments": ("name", "source", "observation", "hint"), "documents": ("title", "text")}

BAND = (0.1, 0.9)
"""Win rates beyond which an environment is too hard or too easy (method.md, environment memory)."""

VIEWS = {
    "frontier": f"""
SELECT e.env_id, e.name, e.skill, e.kind, s.win_rate, s.win_low, s.win_high, s.win_rate_hinted, s.regret, s.regret_se,
  min(s.win_low * (1 - s.win_low), s.win_high * (1 - s.win_high)) AS learnability_low, s.n, s.n_hinted, s.run,
  s.last_step
FROM standings AS s JOIN environments AS e ON e.id = s.environment
WHERE s.latest = 1 AND e.status = 'accepted' AND e.duplicate_of IS NULL
  AND s.win_low >= {BAND[0]} AND s.win_high <= {BAND[1]}
ORDER BY learnability_low DESC, s.regret DESC""",
    "leaderboard": """
SELECT e.env_id, e.name, e.skill, e.kind, s.regret, s.regret_se, s.win_rate, s.win_low, s.win_high, s.win_rate_hinted,
  s.n, s.n_hinted, s.run, s.step
FROM standings AS s CROSS JOIN environments AS e ON e.id = s.environment
WHERE s.latest = 1 AND e.status = 'accepted' AND s.regret IS NOT NULL
ORDER BY s.regret DESC""",
    "graveyard": f"""
SELECT e.env_id, e.name, e.skill, e.status,
  CASE WHEN e.status <> 'accepted' THEN coalesce(e.status_reason, e.status)
    WHEN s.timeout > 0 THEN printf('times out (%d plays)', s.timeout)
    WHEN s.faulty > 0 THEN printf('faulty (%d plays)', s.faulty)
    WHEN s.win_rate > {BAND[1]} THEN printf('too easy (won %d of %d plays)', round(s.win_rate * s.n), s.n)
    ELSE printf('too hard (won %d of %d plays)', round(s.win_rate * s.n), s.n) END AS reason,
  s.win_rate, s.n, s.regret, s.run, s.last_step
FROM environments AS e LEFT JOIN standings AS s ON s.environment = e.id AND s.latest = 1
WHERE e.status <> 'accepted' OR s.timeout > 0 OR s.faulty > 0 OR s.win_rate > {BAND[1]} OR s.win_rate < {BAND[0]}
ORDER BY e.id DESC""",
    "lineage": """
SELECT child.env_id, child.skill, parent.env_id AS parent, d.title AS document, o.run, o.step, o.attempt, o.designer,
  o.checkpoint, o.import_source
FROM origins AS o JOIN environments AS child ON child.id = o.environment
LEFT JOIN parents AS p ON p.origin = o.id LEFT JOIN environments AS parent ON parent.id = p.environment
LEFT JOIN documents AS d ON d.id = o.document""",
}


def _version_1(connection: sqlite3.Connection) -> None:
    """Environments and everything recorded about them."""
    from sqlite_utils import Database

    connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    for statement in (*TABLES, *INDICES):
        connection.execute(statement.strip())
    database = Database(connection, execute_plugins=False)
    for table, columns in FULL_TEXT.items():
        database.table(table).enable_fts(columns, create_triggers=True, tokenize="porter unicode61")


def _version_2(connection: sqlite3.Connection) -> None:
    """Standings, the figures of each environment and run that lists and samplers read, and the views on them."""
    from spade_registry.measuring import update_standings

    for statement in (STANDINGS, *STANDING_INDICES):
        connection.execute(statement.strip())
    for name, query in VIEWS.items():
        connection.execute(f"CREATE VIEW {name} AS {query.strip()}")
    measured = connection.execute("SELECT DISTINCT environment, run FROM measurements").fetchall()
    update_standings(connection, [(environment, run) for environment, run in measured])


MIGRATIONS: tuple[Callable[[sqlite3.Connection], None], ...] = (_version_1, _version_2)
"""`MIGRATIONS[i]` takes a file of version `i` to version `i + 1`, inside a transaction that the caller owns."""
VERSION = len(MIGRATIONS)
"""Version that this release writes (`PRAGMA user_version`)."""


VIEW_TEXTS = {
    "frontier": "What is learnable now: the 95 % interval of the unhinted win rate lies inside [0.1, 0.9]. Best first.",
    "leaderboard": "Accepted environments by regret, the highest first.",
    "graveyard": "What teaches nothing, and why: rejected, retired, faulty, too easy, too hard. Newest first.",
    "lineage": "How each environment came to be: run, step, model, document; one line for each parent it was shown.",
}


class Column(NamedTuple):
    """A column as the schema describes it."""

    name: str
    type: str
    comment: str


def describe(connection: sqlite3.Connection) -> dict[str, list[Column]]:
    """Tables and views of an open registry with their columns; comments are those stored in the schema."""
    found: dict[str, list[Column]] = {}
    listed = connection.execute(
        "SELECT name, sql FROM sqlite_master WHERE type IN ('table', 'view') AND name NOT LIKE '%\\_fts%' ESCAPE '\\' "
        "AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\' ORDER BY type, rowid"
    ).fetchall()
    for name, sql in listed:
        comments = dict(re.findall(r"^\s+(\w+) [^\n]*?-- ([^\n]+)$", sql, re.M))
        columns = connection.execute("SELECT name, type FROM pragma_table_info(?)", (name,)).fetchall()
        found[name] = [Column(column, kind, comments.get(column, "")) for column, kind in columns]
    return found
