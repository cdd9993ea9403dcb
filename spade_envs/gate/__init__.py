"""The gate: when is a program an environment? Extraction, repair, and the stages that it has to pass."""

from spade_envs.gate.check import check
from spade_envs.gate.extract import extract_program
from spade_envs.gate.hints import hint_leaks
from spade_envs.gate.repair import Repair, repair
from spade_envs.gate.report import GateReport, StageResult

__all__ = ["GateReport", "Repair", "StageResult", "check", "extract_program", "hint_leaks", "repair"]
