"""A model of some ten thousand parameters, built in code: to try a trainer out where there is no other model.

- A seed and a size give the same weights and the same tokenizer files, byte for byte, and no other random state moves.
- Its tokenizer has a token for each character of plain lower-case English, figures and signs, and one for each part of
  a conversation; capitals become small, and whatever else there is becomes `<|unk|>`. So few tokens let an untrained
  model find an answer by chance, which is where reinforcement learning begins.
- It is a Qwen3 whose heads have a size that vLLM takes on a CPU too.
"""

from __future__ import annotations

import string
from typing import TYPE_CHECKING, Final

import torch
from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers
from transformers import PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

PAD: Final = "<|pad|>"
END: Final = "<|end|>"
UNKNOWN: Final = "<|unk|>"
ROLES: Final = ("<|system|>", "<|user|>", "<|assistant|>")
CHARACTERS: Final = string.digits + " \n" + string.ascii_lowercase + ".,:;?!'\"+-*/=()<>"
CHAT_TEMPLATE: Final = (
    "{% for message in messages %}<|{{ message.role }}|>{{ message.content }}<|end|>{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)
MAX_POSITIONS: Final = 2048
HEAD_SIZE: Final = 32
HEADS: Final = 4
INITIAL_SPREAD: Final = 0.1
"""Five times the usual: so narrow a model would else tell its inputs apart only after long training."""


def build_model(seed: int, hidden_size: int, layers: int, *, tied: bool) -> PreTrainedModel:
    """The untrained model, in float32 on the CPU."""
    vocabulary = _vocabulary()
    config = Qwen3Config(
        vocab_size=len(vocabulary),
        hidden_size=hidden_size,
        intermediate_size=2 * hidden_size,
        num_hidden_layers=layers,
        num_attention_heads=HEADS,
        num_key_value_heads=HEADS // 2,
        head_dim=HEAD_SIZE,
        max_position_embeddings=MAX_POSITIONS,
        initializer_range=INITIAL_SPREAD,
        tie_word_embeddings=tied,
        attention_dropout=0.0,
        bos_token_id=None,
        eos_token_id=vocabulary[END],
        pad_token_id=vocabulary[PAD],
        attn_implementation="eager",
        dtype=torch.float32,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return Qwen3ForCausalLM(config).eval()


def build_tokenizer() -> PreTrainedTokenizerBase:
    """One token a character."""
    characters = Tokenizer(models.WordLevel(_vocabulary(), unk_token=UNKNOWN))
    characters.normalizer = normalizers.Lowercase()
    characters.pre_tokenizer = pre_tokenizers.Split(Regex(r"[\s\S]"), "isolated")
    characters.decoder = decoders.Fuse()
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=characters,
        pad_token=PAD,
        eos_token=END,
        unk_token=UNKNOWN,
        extra_special_tokens=list(ROLES),
        model_max_length=MAX_POSITIONS,
        clean_up_tokenization_spaces=False,
    )
    tokenizer.chat_template = CHAT_TEMPLATE
    return tokenizer


def _vocabulary() -> dict[str, int]:
    return {token: number for number, token in enumerate([PAD, END, UNKNOWN, *ROLES, *CHARACTERS])}
