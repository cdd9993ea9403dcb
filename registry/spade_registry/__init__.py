"""Store, measure, sample and package designed environments in one SQLite file."""

from spade_registry.memory import Memory, Remembered
from spade_registry.registry import Registry
from spade_registry.replay import Sampler, SamplingError
from spade_registry.rows import Check, Document, Measurement, NewEnvironment, Origin, Play, Ranked, Run, Step
from spade_registry.store import RegistryError, default_path

__all__ = [
    "Check",
    "Document",
    "Measurement",
    "Memory",
    "NewEnvironment",
    "Origin",
    "Play",
    "Ranked",
    "Registry",
    "RegistryError",
    "Remembered",
    "Run",
    "Sampler",
    "SamplingError",
    "Step",
    "default_path",
]
