"""A Gymnasium space for any text up to a length.

`gymnasium.spaces.Text` knows only the characters of a fixed set; agents and environments write whatever they like.
`UnicodeText` contains every `str` up to `max_length` characters and flattens to an array of code points, so that
wrappers which flatten keep working without a table of 1.1 million characters.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium import spaces
from gymnasium.spaces import utils
from numpy.typing import NDArray

_SAMPLED = tuple("abcdefghijklmnopqrstuvwxyz 0123456789\\{}.,?éßλ中🙂")
_SAMPLE_LENGTH = 24
_PADDING = -1


class UnicodeText(spaces.Text):
    """All strings of at most `max_length` characters, lone surrogates included."""

    def __init__(self, max_length: int, *, seed: int | np.random.Generator | None = None) -> None:
        super().__init__(max_length, min_length=0, charset=frozenset(_SAMPLED), seed=seed)

    def contains(self, x: Any) -> bool:
        """Whether `x` is a `str` of at most `max_length` characters."""
        return isinstance(x, str) and len(x) <= self.max_length

    def sample(self, mask: Any = None, probability: Any = None) -> str:
        """A random string of at most 24 characters, from letters, digits, braces and a few others.

        Masks are not supported, because the set of characters is not enumerated.
        """
        if mask is not None or probability is not None:
            raise ValueError("UnicodeText cannot be sampled with a mask or probabilities; call sample() without them")
        length = int(self.np_random.integers(0, min(self.max_length, _SAMPLE_LENGTH) + 1))
        return "".join(self.np_random.choice(_SAMPLED) for _ in range(length))

    def __repr__(self) -> str:
        return f"UnicodeText({self.max_length})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, UnicodeText) and other.max_length == self.max_length

    def __hash__(self) -> int:
        return hash((UnicodeText, self.max_length))


@utils.flatdim.register(UnicodeText)
def _flatdim(space: UnicodeText) -> int:
    return space.max_length


@utils.flatten.register(UnicodeText)
def _flatten(space: UnicodeText, x: str) -> NDArray[np.int32]:  # type: ignore[misc]  # the fallback is generic
    points = np.full(space.max_length, _PADDING, dtype=np.int32)
    points[: len(x)] = [ord(character) for character in x]
    return points


@utils.unflatten.register(UnicodeText)
def _unflatten(space: UnicodeText, x: NDArray[np.int32]) -> str:  # type: ignore[misc]
    return "".join(chr(point) for point in x if point != _PADDING)


@utils.flatten_space.register(UnicodeText)
def _flatten_space(space: UnicodeText) -> spaces.Box:
    return spaces.Box(low=_PADDING, high=0x10FFFF, shape=(space.max_length,), dtype=np.int32)
