"""A key-value cache of rows: a row holds the keys and values of one token sequence, in place, while they are useful.

All rows of a layer live in one tensor `[rows, kv_heads, length, head_dim]`, left-aligned at position 0. A forward pass
reads and writes a selection of rows: the first `n` of them through a view, which costs nothing, or any list of them
through a gather. Rows are moved and copied whole, so a sequence can hand its prefix to another one.

Rows that are not part of a request right now keep their tokens: the next turn of the same play finds its own row, and a
play of the same environment finds the prompt of its sibling, by the hashes of their leading blocks of tokens.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from transformers import PreTrainedConfig
from transformers.cache_utils import Cache, CacheLayerMixin

BLOCK = 8  # tokens per hashed block; a prefix shorter than one block is not worth finding
GROWTH = 64  # positions are added in multiples of this


@dataclass(eq=False)
class Row:
    """One token sequence whose keys and values are stored."""

    index: int
    tokens: list[int] = field(default_factory=list)
    """The sequence so far, including tokens whose keys and values are not computed yet."""
    filled: int = 0
    """Number of leading tokens with keys and values in the cache."""
    busy: bool = False
    """Whether a request is using the row."""
    used: int = 0
    """Clock of the last use, for eviction."""
    hashes: list[int] = field(default_factory=list)
    """Chained hashes of the filled blocks that the index knows."""


class RowLayer(CacheLayerMixin):
    """Keys and values of all rows in one layer, behind the interface of transformers' caches."""

    is_sliding = False
    is_compileable = False

    def __init__(self, cache: RowCache):
        super().__init__()
        self._cache = cache
        self.keys: torch.Tensor | None = None
        self.values: torch.Tensor | None = None

    def lazy_initialization(self, key_states: torch.Tensor, value_states: torch.Tensor) -> None:
        """Allocate for the cache's current size."""
        shape = (self._cache.n_rows, key_states.shape[1], self._cache.length)
        self.keys = key_states.new_zeros((*shape, key_states.shape[-1]))
        self.values = value_states.new_zeros((*shape, value_states.shape[-1]))
        self.is_initialized = True

    def resize(self, n_rows: int, length: int) -> None:
        """Change to `n_rows` rows of `length` positions, keeping what fits."""
        if self.keys is None or self.values is None:
            return
        for name in ("keys", "values"):
            old = getattr(self, name)
            new = old.new_zeros((n_rows, old.shape[1], length, old.shape[3]))
            kept = min(n_rows, old.shape[0])
            new[:kept, :, : old.shape[2]] = old[:kept]
            setattr(self, name, new)

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *args: object, **kwargs: object
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Write the new keys and values `[batch, heads, query, dim]` and return all that the batch may attend to."""
        if self.keys is None or self.values is None:
            self.lazy_initialization(key_states, value_states)
        assert self.keys is not None
        assert self.values is not None
        rows, positions, width, view = self._cache.selection
        self.keys[rows, :, positions] = key_states.transpose(1, 2)
        self.values[rows, :, positions] = value_states.transpose(1, 2)
        if view is not None:
            return self.keys[:view, :, :width], self.values[:view, :, :width]
        return self.keys[rows[:, 0], :, :width], self.values[rows[:, 0], :, :width]

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        """Return the width of the keys and their offset; the engine passes complete masks, so nobody needs more."""
        return self._cache.selection[2], 0

    def get_seq_length(self) -> int:
        """Return 0: positions are passed explicitly, row by row."""
        return 0

    def get_max_cache_shape(self) -> int:
        """Return the number of positions a row has at the moment."""
        return self._cache.length


class RowCache(Cache):
    """All layers, the rows, and the index of their prefixes.

    `max_tokens` bounds rows times positions, and so the memory; rows nobody is using are given up, the longest unused
    first, when a new sequence needs the place.
    """

    def __init__(self, config: PreTrainedConfig, *, max_rows: int, max_tokens: int):
        super().__init__(layers=[RowLayer(self) for _ in range(config.num_hidden_layers)])
        self.max_rows, self.max_tokens = max_rows, max_tokens
        self.rows: list[Row] = []
        self.n_rows, self.length = 0, 0
        self.selection: tuple[torch.Tensor, torch.Tensor, int, int | None]
        self._index: dict[int, Row] = {}
        self._clock = 0

    def select(self, rows: Sequence[Row], positions: torch.Tensor, width: int) -> None:
        """Choose what the next pass writes, `positions` `[rows, query]` of `rows`, and reads, keys up to `width`."""
        indices = torch.tensor([row.index for row in rows]).unsqueeze(1)
        view = len(rows) if all(row.index == i for i, row in enumerate(rows)) else None
        self.selection = (indices, positions, width, view)

    def acquire(self, tokens: list[int]) -> Row | None:
        """Return a busy row for `tokens` with the longest known prefix filled in, or None when all rows are busy.

        At least the last token is left to compute, because its logits are wanted.
        """
        self.reserve(len(tokens) + 1)
        hashes = block_hashes(tokens)
        source, shared = self._longest(tokens, hashes)
        self._clock += 1
        if source is not None and not source.busy and shared >= source.filled - 1:
            row = source
        else:
            found = self._vacant(keep=source)
            if found is None:
                return None
            row = found
            if source is not None:
                self._copy(source.index, row.index, shared)
        row.tokens, row.filled = list(tokens), min(shared, len(tokens) - 1)
        self._forget(row, keep=row.filled // BLOCK)
        row.busy, row.used = True, self._clock
        return row

    def release(self, row: Row) -> None:
        """Let other requests use the row; its filled prefix stays findable."""
        row.busy = False
        del row.tokens[row.filled :]
        self.publish(row)

    def publish(self, row: Row) -> None:
        """Make the filled blocks of the row findable by their hashes."""
        for value in block_hashes(row.tokens[: row.filled], row.hashes):
            row.hashes.append(value)
            self._index.setdefault(value, row)

    def clear(self) -> None:
        """Forget every stored sequence (the weights have changed). No row may be busy."""
        for row in self.rows:
            row.tokens, row.filled, row.hashes = [], 0, []
        self._index.clear()

    def reserve(self, length: int) -> None:
        """Make sure that rows have `length` positions; idle rows go when the longer ones would not fit into memory."""
        if length <= self.length:
            return
        target = -(-max(length, self.length + self.length // 2) // GROWTH) * GROWTH
        busy = [row for row in self.rows if row.busy]
        n_rows = min(self.n_rows, max(len(busy), self.max_tokens // target))
        if n_rows < self.n_rows:
            self.compact(busy)
            for row in self.rows[n_rows:]:
                self._forget(row)
            del self.rows[n_rows:]
        self._resize(n_rows, target)

    def compact(self, busy: Sequence[Row]) -> None:
        """Move the busy rows to the lowest indices, so that a forward pass can use a view of them."""
        holes = [i for i in range(len(busy)) if not self.rows[i].busy]
        for row in busy:
            if row.index >= len(busy):
                self._swap(row, self.rows[holes.pop()])

    def _longest(self, tokens: list[int], hashes: list[int]) -> tuple[Row | None, int]:
        for n in range(len(hashes), 0, -1):
            row = self._index.get(hashes[n - 1])
            if row is not None and row.tokens[: n * BLOCK] == tokens[: n * BLOCK]:
                shared, end = n * BLOCK, min(row.filled, len(tokens) - 1)
                while shared < end and row.tokens[shared] == tokens[shared]:
                    shared += 1
                return row, min(shared, end)
        return None, 0

    def _vacant(self, keep: Row | None) -> Row | None:
        free = [row for row in self.rows if not row.busy and row is not keep]
        empty = next((row for row in free if not row.filled), None)
        if empty is not None:
            return empty
        limit = min(self.max_rows, max(1, self.max_tokens // max(self.length, 1)))
        if self.n_rows < limit:
            self._resize(min(limit, max(8, 2 * self.n_rows)), self.length)
            return next(row for row in self.rows if not row.busy and not row.filled)
        if not free:
            return keep if keep is not None and not keep.busy else None
        row = min(free, key=lambda one: one.used)
        self._forget(row)
        return row

    def _own_layers(self) -> list[Any]:
        return list(self.layers)

    def _resize(self, n_rows: int, length: int) -> None:
        for layer in self._own_layers():
            layer.resize(n_rows, length)
        self.rows.extend(Row(i) for i in range(len(self.rows), n_rows))
        self.n_rows, self.length = n_rows, length

    def _forget(self, row: Row, keep: int = 0) -> None:
        for value in row.hashes[keep:]:
            if self._index.get(value) is row:
                del self._index[value]
        del row.hashes[keep:]

    def _copy(self, source: int, target: int, length: int) -> None:
        for layer in self._own_layers():
            for states in (layer.keys, layer.values):
                if states is not None:
                    states[target, :, :length] = states[source, :, :length]

    def _swap(self, one: Row, other: Row) -> None:
        width = max(one.filled, other.filled)
        for layer in self._own_layers():
            for states in (layer.keys, layer.values):
                if states is not None:
                    pair = states[[one.index, other.index], :, :width]
                    states[[other.index, one.index], :, :width] = pair
        one.index, other.index = other.index, one.index
        self.rows[one.index], self.rows[other.index] = one, other


def block_hashes(tokens: Sequence[int], known: Sequence[int] = ()) -> list[int]:
    """Return the chained hashes of the complete blocks of `tokens` that come after the `known` ones."""
    chain = known[-1] if known else 0
    hashes = []
    for start in range(len(known) * BLOCK, len(tokens) - BLOCK + 1, BLOCK):
        chain = hash((chain, *tokens[start : start + BLOCK]))
        hashes.append(chain)
    return hashes
