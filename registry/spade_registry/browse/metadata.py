"""What Datasette is told about a registry: titles, descriptions of tables and columns, facets, canned queries."""

from __future__ import annotations

from typing import Any

from spade_registry import schema

TITLES = {
    "environments": "Programs with their status, skill and hint in use.",
    "hints": "Every hint that was written, and why a refused one leaks.",
    "plays": "Every episode: policy, seed, arm, return and outcome.",
    "measurements": "Win rates and regret of an environment at a step of a run.",
    "standings": "How an environment stands in a run, over its last window.",
    "checks": "What each stage of the gate said about a program.",
    "origins": "How a program came to be.",
    "parents": "Environments that the designer was shown.",
    "documents": "Corpus documents that designs were grounded on.",
    "runs": "Training, design and measuring runs.",
    "steps": "The metrics of each step of a run.",
}
FACETS = {
    "environments": ["skill", "status", "kind"],
    "plays": ["outcome", "policy"],
    "checks": ["stage", "passed"],
    "runs": ["preset", "state"],
}
QUERIES: dict[str, dict[str, str]] = {
    "frontier": {
        "title": "What is learnable now",
        "sql": "select env_id, skill, win_rate, win_low, win_high, regret, n from frontier limit 200",
    },
    "most_taught": {
        "title": "Which environments taught most: the rise of the unhinted win rate within a run",
        "sql": """select e.env_id, e.skill, m.run, min(m.step) as first_step, max(m.step) as last_step,
  max(case when m.step = s.first then m.win_rate end) as first_win_rate,
  max(case when m.step = s.last then m.win_rate end) as last_win_rate
from measurements as m join environments as e on e.id = m.environment
join (select environment, run, min(step) as first, max(step) as last from measurements group by environment, run) as s
  on s.environment = m.environment and s.run = m.run
group by m.environment, m.run having count(*) > 1
order by last_win_rate - first_win_rate desc limit 200""",
    },
    "graveyard": {
        "title": "What teaches nothing, and why",
        "sql": "select env_id, skill, status, reason, win_rate, n from graveyard limit 200",
    },
    "lineage_of": {
        "title": "Where one environment comes from",
        "sql": "select env_id, parent, document, run, step, designer from lineage "
        "where env_id like '%' || :environment || '%'",
    },
    "learning": {
        "title": "Win rates and regret by step",
        "sql": """select step, json_extract(metrics, '$."spade/player/win_rate"') as win_rate,
  json_extract(metrics, '$."spade/player/win_rate_hinted"') as win_rate_hinted,
  json_extract(metrics, '$."spade/designer/regret"') as regret
from steps where run = :run order by step""",
    },
}


def metadata(database: str, described: dict[str, list[schema.Column]]) -> dict[str, Any]:
    """Datasette's metadata for a database name and the tables of `schema.describe`."""
    tables: dict[str, dict[str, Any]] = {}
    for name, columns in described.items():
        comments = {column.name: column.comment for column in columns if column.comment}
        tables[name] = {
            "description": TITLES.get(name) or schema.VIEW_TEXTS.get(name, ""),
            **({"columns": comments} if comments else {}),
            **({"facets": FACETS[name]} if name in FACETS else {}),
            **({"sort_desc": "id"} if name == "environments" else {}),
        }
    return {
        "title": "A registry of environments",
        "description": "Designed programs, their hints, and everything measured on them. Read-only.",
        "databases": {database: {"tables": tables, "queries": QUERIES}},
    }
