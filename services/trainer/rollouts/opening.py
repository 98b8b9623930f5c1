"""The engine that a run's settings name.

    engine = open_engine(settings, loaded)
    sync = WeightSync(engine, probe_tokens(settings, loaded.tokenizer), expected, settings.rollouts.probe_tolerance)
    sync.send(weights)

What is installed is checked here, before anything runs: an engine whose package is missing is refused at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from services.trainer.rollouts.engines import Engine
    from services.trainer.settings import Settings


class Loaded(Protocol):
    """What an engine needs of a model that was loaded: `services.trainer.models.LoadedModel` has it."""

    @property
    def model(self) -> Any: ...

    @property
    def tokenizer(self) -> Any: ...

    @property
    def device(self) -> Any: ...

    @property
    def stop_ids(self) -> Sequence[int]: ...


def open_engine(settings: Settings, loaded: Loaded) -> Engine:
    """An engine that has no weights yet: send it some with `probing.WeightSync`.

    It takes the model's configuration and keeps neither the model nor its weights, so the model may be sharded or
    trained meanwhile. In a run of several processes one process opens it.

    Raises:
        LedgerError: reason EXTRA_MISSING, if the engine's package is not installed; NOT_PERMITTED, if the variable
            that should hold the server's key is not set.
        InvalidInput: reason USAGE, if the engine cannot serve such a run.
    """
    kind = settings.rollouts.engine
    if kind == "transformers":
        return _transformers(settings, loaded)
    if kind == "vllm":
        return _vllm(settings, loaded)
    return _openai(settings, loaded)


def _transformers(settings: Settings, loaded: Loaded) -> Engine:
    from services.trainer.rollouts.transformers_engine import TransformersEngine  # noqa: PLC0415  # imports torch

    return TransformersEngine(
        loaded.model.config,
        dtype=loaded.model.dtype,
        device=loaded.device,
        ends=loaded.stop_ids,
        max_concurrent=settings.rollouts.max_concurrent,
    )


def _vllm(settings: Settings, loaded: Loaded) -> Engine:
    from services.trainer.rollouts.vllm_engine import VllmEngine  # noqa: PLC0415  # imports torch

    positions = getattr(loaded.model.config, "max_position_embeddings", None)
    return VllmEngine(
        dtype=settings.model.dtype,
        on_cpu=str(loaded.device).startswith("cpu"),
        ends=loaded.stop_ids,
        max_length=_room(settings, loaded, positions),
        vocabulary=int(loaded.model.config.vocab_size),
        max_concurrent=settings.rollouts.max_concurrent,
        gpu_memory_utilization=settings.rollouts.gpu_memory_utilization,
    )


def _openai(settings: Settings, loaded: Loaded) -> Engine:
    from services.trainer.rollouts.openai_engine import OpenAIEngine  # noqa: PLC0415  # beside the other two
    from services.trainer.rollouts.serving_calls import key_from  # noqa: PLC0415

    rollouts = settings.rollouts
    assert rollouts.url is not None  # the settings see to it
    return OpenAIEngine(
        rollouts.url,
        ends=loaded.stop_ids,
        model_name=rollouts.model_name,
        key=key_from(rollouts.api_key_env),
        max_concurrent=rollouts.max_concurrent,
    )


def _room(settings: Settings, loaded: Loaded, positions: int | None) -> int:
    """Tokens that a sequence may have: a prompt with its answer, or the probe with one token more."""
    from services.trainer.rollouts.probing import probe_tokens  # noqa: PLC0415  # imports torch

    wanted = max(settings.algorithm.max_seq_len, len(probe_tokens(settings, loaded.tokenizer)) + 1)
    return wanted if positions is None else min(wanted, positions)
