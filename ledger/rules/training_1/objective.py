"""What was optimised: the settings that make two objectives the same, and how much of each switch was in effect.

A setting is taken from the declaration, else from the recorded configuration by the trainer's own paths; what stands
in neither is absent. A switch is not an effect: a clip with one update a batch clips nothing, a correction that was
skipped corrected nothing, a divergence that nothing asked for was not zero but not measured.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from math import isfinite
from typing import Any, Final

import msgspec

from ledger.rules.training_1.decoding import plain
from ledger.rules.training_1.growing import items
from ledger.rules.training_1.model import Life, Run, Series
from ledger.rules.training_1.settings import dotted
from ledger.rules.training_1.values import shown

_ALGORITHM: Final = "trainer.algorithm."

PATHS: Final[dict[str, tuple[str, ...]]] = {
    "advantage_estimator": (_ALGORITHM + "advantage_estimator",),
    "policy_loss_type": (_ALGORITHM + "policy_loss_type",),
    "loss_reduction": (_ALGORITHM + "loss_reduction",),
    "micro_train_batch_size_per_gpu": ("trainer.micro_train_batch_size_per_gpu",),
    "policy_mini_batch_size": ("trainer.policy_mini_batch_size",),
    "train_batch_size": ("trainer.train_batch_size",),
    "update_epochs_per_batch": ("trainer.update_epochs_per_batch",),
    "eps_clip_low": (_ALGORITHM + "eps_clip_low",),
    "eps_clip_high": (_ALGORITHM + "eps_clip_high",),
    "use_kl_loss": (_ALGORITHM + "use_kl_loss",),
    "kl_loss_coef": (_ALGORITHM + "kl_loss_coef",),
    "use_kl_in_reward": (_ALGORITHM + "use_kl_in_reward",),
    "use_entropy_loss": (_ALGORITHM + "use_entropy_loss",),
    "entropy_loss_coef": (_ALGORITHM + "entropy_loss_coef",),
    "use_tis": (_ALGORITHM + "use_tis",),
    "tis_imp_ratio_cap": (_ALGORITHM + "tis_imp_ratio_cap",),
    "rloo_n_min_group_size": (_ALGORITHM + "rloo_n_min_group_size",),
    "learning_rate": ("trainer.policy.optimizer_config.lr",),
    "n_samples_per_prompt": ("generator.n_samples_per_prompt",),
    "temperature": ("generator.sampling_params.temperature",),
    "max_input_length": ("generator.max_input_length", "trainer.max_prompt_length"),
    "max_generate_length": ("generator.sampling_params.max_generate_length",),
    "max_staleness_steps": ("trainer.fully_async.max_staleness_steps",),
}
"""Each part by its name in the declaration, and where a trainer's configuration has it."""

WHOLE: Final = 2**53
"""Below it a float that is whole is exactly one integer."""

Part = tuple[Any, str]
"""The value, and where it stands."""


def written(run: Run) -> dict[str, Any]:
    """As `Objective` in runs.proto."""
    parts = identity(run.life)
    values = {name: value for name, (value, _) in parts.items()}
    clip, kl = _clip(values, run.series), _kl(values, run.series)
    tis = _Tis(run.series)
    found: dict[str, Any] = {
        "identity": [
            {"name": name, "value": _text(value), "origin": origin} for name, (value, origin) in parts.items()
        ],
        "clip": clip,
        "kl": kl,
        "notes": [
            *_reduction_notes(values),
            *_clip_notes(clip, values, run.series),
            *_kl_notes(kl),
            *tis.notes(values),
        ],
    }
    return found | tis.written()


def identity(life: Life) -> dict[str, Part]:
    """What makes two objectives the same, as far as it is recorded."""
    declared = life.declared[-1].said if life.declared else None
    settings = _settings(life)
    parts: dict[str, Part] = {}
    if declared is not None:
        for code in declared.code:
            if code.role == "trainer" and code.commit is not None:
                dirty = " with changes" if code.dirty else ""
                parts.setdefault("trainer", (f"{code.name}@{code.commit}{dirty}", "declared"))
        data = (declared.parallelism or {}).get("data")
        if data is not None:
            parts["data_parallel"] = (data, "declared")
    stated = (declared.algorithm or {}) if declared is not None else {}
    for name, paths in PATHS.items():
        if stated.get(name) is not None:
            parts[name] = (stated[name], "declared")
            continue
        path = next((path for path in paths if settings.get(path) is not None), None)
        if path is not None:
            parts[name] = (settings[path], "config")
    return parts


def _settings(life: Life) -> dict[str, Any]:
    """The settings of the last configuration that names any, by dotted path."""
    for config in reversed(life.configs):
        named = dict(dotted(plain(config.settings)))
        if named:
            return named
    return {}


def _reduction_notes(values: dict[str, Any]) -> Iterator[str]:
    reduction, micro = values.get("loss_reduction"), values.get("micro_train_batch_size_per_gpu")
    if reduction in {"token_mean", "sequence_mean"} and micro == 1:
        other = "sequence_mean" if reduction == "token_mean" else "token_mean"
        yield (
            f"{reduction} over micro-batches of one sequence is the same number as {other}, in code that averages over "
            "micro-batches: comparing the two compares nothing"
        )
    if reduction is not None and micro is None:
        yield f"{reduction} means nothing without the micro-batch size, which is not recorded"


def _clip(values: dict[str, Any], series: Series) -> str:
    """In effect, inert or unknown: with one update a batch on its own log-probabilities the ratio is 1."""
    # A worker may count micro steps under this name: only that there never was more than one shows something.
    if series.updates is not None and series.updates.greatest == 1:
        return "inert"
    if series.clipped is not None and series.clipped.greatest > 0:
        return "in_effect"
    batch, mini = values.get("train_batch_size"), values.get("policy_mini_batch_size")
    epochs = values.get("update_epochs_per_batch")
    if None in {batch, mini, epochs}:
        return "unknown"
    return "inert" if batch == mini and epochs == 1 else "in_effect"


def _clip_notes(clip: str, values: dict[str, Any], series: Series) -> Iterator[str]:
    if clip != "inert":
        return
    bounds = [f"{name} {values[name]}" for name in ("eps_clip_low", "eps_clip_high") if name in values]
    without = f": {' and '.join(bounds)} are recorded and without effect" if bounds else ""
    yield f"the clip is inert: each batch makes one update on its own log-probabilities{without}"
    if series.clipped is not None and series.clipped.greatest > 0:
        yield f"yet a clip ratio of {shown(series.clipped.greatest)} was logged"


def _kl(values: dict[str, Any], series: Series) -> str:
    if series.kl:
        return "measured"
    switches = [values.get("use_kl_loss"), values.get("use_kl_in_reward")]
    return "not_measured" if switches == [False, False] else "unknown"


def _kl_notes(kl: str) -> Iterator[str]:
    if kl == "not_measured":
        yield "no divergence from a reference was measured: both switches are off, which is not a divergence of zero"


class _Tis:
    """Truncated importance sampling: on how many of the logged steps it was applied."""

    def __init__(self, series: Series) -> None:
        self._skipped = [
            p.tis_skipped for p in items(series.points) if p.tis_skipped is not None and isfinite(p.tis_skipped)
        ]
        self._steps = sum(span.steps for span in series.spans.values())

    @property
    def _applied(self) -> int:
        return sum(skipped < 1 for skipped in self._skipped)

    def written(self) -> dict[str, Any]:
        if not self._skipped:
            return {}
        return {
            "tis_skipped_fraction": sum(self._skipped) / len(self._skipped),
            "tis_applied_steps": self._applied,
            "tis_steps": len(self._skipped),
        }

    def notes(self, values: dict[str, Any]) -> Iterable[str]:
        switch = values.get("use_tis")
        if self._skipped:
            yield (
                f"truncated importance sampling was applied on {self._applied} of the {len(self._skipped)} steps that "
                "say whether it was"
            )
        elif switch is True and self._steps:
            yield "truncated importance sampling was switched on; no step says whether it was applied"


def _text(value: Any) -> str:
    """A word as it is, anything else as JSON; a number that is whole is one number, however it was written."""
    if isinstance(value, str):
        return value
    if isinstance(value, float) and value.is_integer() and abs(value) < WHOLE:
        value = int(value)
    return msgspec.json.encode(value, order="deterministic").decode()
