"""`gymnasium.make("spade/<id>")` without registering anything: the namespace is resolved when an id is asked for.

Registering 100,000 environments one by one takes minutes, because Gymnasium scans all specs at each call. So its
registry, a plain dict, is replaced by one that answers for `spade/...` from the sources, at the moment of the look-up.
Such specs are never stored: every other look-up and every scan sees what Gymnasium itself registered, and an id that
a registry file gained a second ago is found.
"""

from __future__ import annotations

from typing import Any

import gymnasium
from gymnasium.envs import registration
from gymnasium.envs.registration import EnvSpec

from spade_envs.contract import NAMESPACE
from spade_envs.errors import AmbiguousEnvironment, UnknownEnvironment
from spade_envs.sources import resolve

PREFIX = NAMESPACE + "/"
ENTRY_POINT = "spade_envs.env:SpadeEnv"
VECTOR_ENTRY_POINT = "spade_envs.vector:SpadeVectorEnv"


class NotFound(UnknownEnvironment, gymnasium.error.NameNotFound):
    """No source knows the id; also what Gymnasium raises for a name it does not know."""


class NotUnique(AmbiguousEnvironment, gymnasium.error.UnregisteredEnv):
    """An id's prefix or name fits several environments; also an error of Gymnasium's own tree."""


class LazyRegistry(dict[str, EnvSpec]):
    """Gymnasium's registry, which also answers for the ids of the namespace."""

    def get(self, key: str, default: Any = None) -> Any:
        """The spec of an id; for the namespace, an unknown id raises `NotFound`, which says where it was looked for."""
        if not _is_ours(key) or dict.__contains__(self, key):
            return super().get(key, default)
        return find_spec(key)

    def __missing__(self, key: str) -> EnvSpec:
        if not _is_ours(key):
            raise KeyError(key)
        return find_spec(key)

    def __contains__(self, key: object) -> bool:
        if dict.__contains__(self, key):
            return True
        if not _is_ours(key):
            return False
        try:
            find_spec(str(key))
        except (NotFound, NotUnique):
            return False
        return True


def _is_ours(key: object) -> bool:
    return isinstance(key, str) and key.startswith(PREFIX)


def find_spec(query: str) -> EnvSpec:
    """The Gymnasium spec that a query stands for: an id, or an unambiguous prefix or name, after `spade/`.

    The spec holds the canonical id and nothing of the program: neither source, nor hint, nor statistics.
    """
    try:
        record = resolve(query)
    except UnknownEnvironment as error:
        raise NotFound(str(error)) from None
    except AmbiguousEnvironment as error:
        raise NotUnique(str(error)) from None
    identifier = record.program.id
    return EnvSpec(
        id=identifier,
        entry_point=ENTRY_POINT,
        vector_entry_point=VECTOR_ENTRY_POINT,
        kwargs={"program_or_id": identifier},
    )


def install() -> None:
    """Put the lazy registry in Gymnasium's place for it; a second call does nothing."""
    present = registration.registry
    if isinstance(present, LazyRegistry):
        return
    lazy = LazyRegistry(present)
    registration.registry = lazy
    gymnasium.registry = gymnasium.envs.registry = lazy
    registration.pprint_registry.__defaults__ = (lazy,)  # its default was bound to the old dict
