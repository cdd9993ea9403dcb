"""The tokenizer of the nano model: byte-level BPE learned from its own demonstrations, nothing is ever unknown.

Words, punctuation and indentation are units; every digit is a token of its own, so that numbers are read place by place.
A word keeps its leading space and `CamelCase` is split, so that a noun has the same tokens in a title, in a class name and
in a sentence: copying it is copying tokens. The chat template is Qwen's, and rendering a longer conversation only appends.
"""

from __future__ import annotations

from collections.abc import Iterable

from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

VOCABULARY = 1024
SPECIALS = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
UNITS = (
    r" ?\\+boxed\\?\{+| ?[01]\.0| ?\d|\n+ *|(?:, |[ .])?[A-Z]?[a-z]+(?:_[a-z]+)*\(?|[ .]?[A-Z]+(?![a-z])"
    r"|__[a-z]+__| ?[^\sA-Za-z0-9\\]+| ?\\+|[^\S\n]+"
)
CHAT_TEMPLATE = (
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>\n' }}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)


def train(texts: Iterable[str], size: int = VOCABULARY) -> PreTrainedTokenizerFast:
    """Learn the merges from rendered conversations and return the finished tokenizer."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(UNITS), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=size,
        special_tokens=list(SPECIALS),
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        eos_token="<|im_end|>",
        pad_token="<|endoftext|>",
        chat_template=CHAT_TEMPLATE,
        additional_special_tokens=["<|im_start|>"],
        clean_up_tokenization_spaces=False,
        model_max_length=1024,
    )
