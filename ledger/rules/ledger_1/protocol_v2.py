"""The protocol v2 as the Atlas page has it: what a new log defines and adopts first."""

from __future__ import annotations

from typing import Final

from ledger.events.fields import JsonObject
from ledger.events.policy import ProtocolDefined, ProtocolModel

_SAMPLING: Final[JsonObject] = {
    "temperature": 0.7,
    "top_p": 0.95,
    "top_k": 20,
    "min_p": 0,
    "repetition_penalty": 1,
    "presence_penalty": 0,
    "frequency_penalty": 0,
    "max_tokens": 16_384,
}

V2: Final = ProtocolDefined(
    protocol="atlas-difficulty-v2-65k16k",
    context_window=65_536,
    max_input_tokens=49_152,
    max_output_tokens=16_384,
    models=[
        ProtocolModel(
            size="small",
            model="Qwen/Qwen3-Coder-30B-A3B-Instruct",
            reasoning="Non-thinking checkpoint",
            generation_parameters=_SAMPLING,
        ),
        ProtocolModel(
            size="large",
            model="Qwen/Qwen3.5-122B-A10B",
            reasoning="Thinking enabled",
            generation_parameters={**_SAMPLING, "chat_template_kwargs": {"enable_thinking": True}},
        ),
        ProtocolModel(
            size="hosted",
            model="zai-org/GLM-5.3",
            reasoning="Low reasoning effort",
            generation_parameters={**_SAMPLING, "reasoning_effort": "low"},
        ),
    ],
    note="Three fixed models on the same task sample. The output limit includes reasoning. Hosted runs on Together.",
)
