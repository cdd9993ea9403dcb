"""nano: a Qwen3 model of 1.4 million parameters, trained from scratch here, that designs small games and plays them.

`MODEL` is the folder with the shipped weights and tokenizer; `python -m spade_trainer.nano.make` makes them again.
"""

from pathlib import Path

MODEL = Path(__file__).parent / "model"
