"""The data set that verl asks for: long enough for any run, and never read.

verl builds a data loader from it and derives epochs from its length. What a step designs and plays is decided by the
trainer from the registry at that step; a data loader would have fetched it too early.
"""

from __future__ import annotations

from typing import Any

from torch.utils.data import Dataset

LENGTH = 1 << 30


class SpadeDataset(Dataset):
    """Has a length and no content; takes the arguments that verl passes."""

    def __init__(self, data_files: Any = None, tokenizer: Any = None, config: Any = None, **_: Any):
        super().__init__()

    def __len__(self) -> int:
        return LENGTH

    def __getitem__(self, index: int) -> dict[str, Any]:
        raise RuntimeError("the trainer `spade` decides what to play; set trainer.v1.trainer_mode=spade")
