"""What a run is: a TOML file, checked whole before anything starts.

Keys of [algorithm] are SkyRL's, with their meaning. A setting that another one makes meaningless is refused, since a
record of a run that names it would mislead. What the file leaves out has the default that is written here, and the
whole of it, defaults and all, is what the run records as its configuration.
"""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Final, Literal, Self, get_args

from pydantic import BaseModel, ConfigDict, Field, JsonValue, ValidationError, model_validator

from ledger.core.errors import InvalidInput, Problem
from ledger.events.fields import AnyText, Name, Revision, SourceId
from ledger.events.runs import CampaignId, RunId

Positive = Annotated[int, Field(ge=1)]
Fraction = Annotated[float, Field(ge=0, le=1)]
NotNegative = Annotated[float, Field(ge=0, allow_inf_nan=False)]
AboveZero = Annotated[float, Field(gt=0, allow_inf_nan=False)]

Reduction = Literal["token_mean", "sequence_mean", "seq_mean_token_sum_norm", "seq_mean_token_sum_norm_global"]


QUESTION: Final = "{question}"


class Part(BaseModel):
    """A table of the file: frozen, and holding nothing that is not named."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    def _refuse_unused(self, used: bool, *names: str) -> None:  # noqa: FBT001  # reads as: this, where that is used
        """Refuses what was set and has no effect. A value that is the default may be written out all the same."""
        for name in names:
            if not used and getattr(self, name) != type(self).model_fields[name].default:
                raise ValueError(f"`{name}` has no effect here: leave it out, or switch on what uses it")


class Run(Part):
    id: RunId
    folder: Path
    """Checkpoints, rollouts, exports and the recorder's spool lie below it. Relative: to the file of settings."""
    purpose: AnyText | None = None
    campaign: CampaignId | None = None
    arm: Name | None = None
    steps: Positive
    seed: Annotated[int, Field(ge=0, lt=2**31)] = 42
    checkpoint_interval: Positive = 5
    checkpoints_kept: Annotated[int, Field(ge=0)] = 0
    """The newest ones; 0: all. What was selected is never deleted."""
    eval_interval: Annotated[int, Field(ge=0)] = 0
    """0: never."""
    deterministic: bool = True
    threads: Annotated[int, Field(ge=0)] = 0
    """Of torch on a CPU; 0: as torch decides. A sum's last bits depend on it."""


class Origin(Part):
    """A model by its repository and commit, where it has one."""

    name: Name
    repository: Name | None = None
    commit: Revision | None = None
    license: Name | None = None


class Model(Part):
    kind: Literal["tiny-qwen3", "folder", "gguf"]
    """`tiny-qwen3`: built in code from `seed`, to try things out. `folder`: Hugging Face files. `gguf`: one file."""
    path: Path | None = None
    origin: Origin | None = None
    root: Origin | None = None
    """What the model descends from."""
    dtype: Literal["float32", "bfloat16"] = "float32"
    """Of the weights as they compute, and as they are exported. The optimizer works in float32 in either case."""
    device: Name = "auto"
    """`auto`: CUDA if there is one."""
    seed: Annotated[int, Field(ge=0)] = 0
    hidden_size: Positive = 64
    layers: Positive = 2
    tied: bool = True
    """Its output layer is its input embedding."""

    @model_validator(mode="after")
    def _has_path(self) -> Self:
        if (self.path is None) != (self.kind == "tiny-qwen3"):
            raise ValueError("`path` is needed for the kinds folder and gguf, and for these only")
        self._refuse_unused(self.kind == "tiny-qwen3", "seed", "hidden_size", "layers", "tied")
        return self


class Data(Part):
    """A set of tasks with its verifier."""

    kind: Literal["digits", "sums", "reasoning-gym"]
    name: Name | None = None
    """Of the task in reasoning-gym."""
    verifier: Literal["own", "last-number"] = "own"
    count: Positive = 64
    seed: Annotated[int, Field(ge=0)] = 0
    settings: dict[str, JsonValue] = {}
    """Further ones, of the generator."""
    prompt: AnyText | None = None
    """A template with {question}; null: the set's own."""
    atlas_id: SourceId | None = None
    role: Literal["train", "eval"] = "train"

    @model_validator(mode="after")
    def _has_name(self) -> Self:
        if (self.name is None) == (self.kind == "reasoning-gym"):
            raise ValueError("`name` is needed for the kind reasoning-gym, and for it only")
        if self.prompt is not None and QUESTION not in self.prompt:
            raise ValueError(f"`prompt` must say where the question stands, as {QUESTION}")
        return self


class Algorithm(Part):
    advantage_estimator: Literal["rloo", "rloo_n"] = "rloo"
    rloo_n_min_group_size: Positive | None = None
    """Null: 2."""
    loss_reduction: Literal[
        "token_mean", "sequence_mean", "seq_mean_token_sum_norm", "seq_mean_token_sum_norm_global"
    ] = "token_mean"
    policy_loss_type: Literal["regular"] = "regular"
    eps_clip_low: Fraction = 0.2
    eps_clip_high: NotNegative = 0.2
    use_kl_loss: bool = False
    use_kl_in_reward: bool = False
    kl_loss_coef: NotNegative | None = None
    """Null: 0.001 where a KL is used."""
    kl_estimator_type: Literal["k1", "k2", "k3", "abs"] = "k3"
    use_entropy_loss: bool = False
    entropy_loss_coef: NotNegative | None = None
    """Null: 0.01 where the entropy loss is used."""
    use_tis: bool = False
    tis_imp_ratio_cap: AboveZero | None = None
    train_batch_size: Positive = 8
    """Prompts a step."""
    policy_mini_batch_size: Positive | None = None
    """Prompts an optimizer step; null: all of the step's."""
    micro_train_batch_size_per_gpu: Positive = 8
    """Sequences a forward pass and process. It changes no loss: see `objective.reductions`."""
    update_epochs_per_batch: Positive = 1
    n_samples_per_prompt: Annotated[int, Field(ge=2)] = 4
    temperature: AboveZero = 1.0
    max_input_length: Positive = 128
    max_generate_length: Positive = 16
    learning_rate: AboveZero = 1e-3
    warmup_steps: Annotated[int, Field(ge=0)] = 0
    weight_decay: NotNegative = 0.0
    max_grad_norm: AboveZero = 1.0
    errors: Literal["mask", "zero"] | None = None
    """What a rollout that fails becomes: left out of the baseline, or a reward of 0. Null: as the estimator can."""

    @property
    def mini_batch(self) -> int:
        """Prompts an optimizer step."""
        return self.policy_mini_batch_size or self.train_batch_size

    @property
    def error_treatment(self) -> Literal["mask", "zero"]:
        return self.errors or ("mask" if self.advantage_estimator == "rloo_n" else "zero")

    @property
    def max_seq_len(self) -> int:
        return self.max_input_length + self.max_generate_length

    @model_validator(mode="after")
    def _means_something(self) -> Self:
        if self.train_batch_size % self.mini_batch:
            raise ValueError("`train_batch_size` must be a multiple of `policy_mini_batch_size`")
        if self.use_kl_loss and self.use_kl_in_reward:
            raise ValueError("`use_kl_loss` and `use_kl_in_reward` exclude each other")
        self._refuse_unused(self.advantage_estimator == "rloo_n", "rloo_n_min_group_size")
        self._refuse_unused(self.use_kl_loss or self.use_kl_in_reward, "kl_loss_coef", "kl_estimator_type")
        self._refuse_unused(self.use_entropy_loss, "entropy_loss_coef")
        self._refuse_unused(self.use_tis, "tis_imp_ratio_cap")
        if self.use_tis and self.tis_imp_ratio_cap is None:
            raise ValueError("`use_tis` needs `tis_imp_ratio_cap`")
        if self.errors == "mask" and self.advantage_estimator == "rloo":
            raise ValueError('`errors = "mask"` needs rloo_n: rloo has no neutral exclusion')
        if (self.rloo_n_min_group_size or 0) > self.n_samples_per_prompt:
            raise ValueError("`rloo_n_min_group_size` exceeds `n_samples_per_prompt`: no group would ever train")
        return self


class Rollouts(Part):
    engine: Literal["transformers", "vllm", "openai"] = "transformers"
    url: Annotated[str, Field(pattern=r"^https?://[!-~]+$")] | None = None
    """Of an OpenAI-compatible vLLM server, up to and without /v1."""
    model_name: Name | None = None
    """As the server calls it; null: the only one that it has."""
    api_key_env: Name | None = None
    """The environment variable that holds the server's key."""
    probe_prompt: AnyText = "The quick brown fox jumps over the lazy dog."
    probe_tolerance: AboveZero = 1e-3
    """The largest difference of log-probabilities, engine against trainer, after weights were sent."""
    gpu_memory_utilization: Fraction = 0.5
    max_concurrent: Positive = 64

    @model_validator(mode="after")
    def _has_url(self) -> Self:
        if (self.url is None) == (self.engine == "openai"):
            raise ValueError("`url` is needed for the engine openai, and for it only")
        self._refuse_unused(self.engine == "openai", "model_name", "api_key_env")
        self._refuse_unused(self.engine == "vllm", "gpu_memory_utilization")
        return self


class Select(Part):
    """Which checkpoint is chosen when the run ends: the trailing EMA of the reward, over the saves."""

    enabled: bool = True
    purpose: Name = "export"


class Export(Part):
    """An export by the trainer itself, of the checkpoint that was selected."""

    enabled: bool = False
    max_shard_bytes: Positive = 5_000_000_000

    @model_validator(mode="after")
    def _is_used(self) -> Self:
        self._refuse_unused(self.enabled, "max_shard_bytes")
        return self


class Settings(Part):
    """A run's settings."""

    run: Run
    model: Model
    data: Annotated[list[Data], Field(min_length=1)]
    algorithm: Algorithm = Algorithm()
    rollouts: Rollouts = Rollouts()
    select: Select = Select()
    export: Export = Export()

    @model_validator(mode="after")
    def _has_data(self) -> Self:
        if not any(d.role == "train" for d in self.data):
            raise ValueError("no data has the role train")
        if self.run.eval_interval and not any(d.role == "eval" for d in self.data):
            raise ValueError("`run.eval_interval` needs data of the role eval")
        if not self.run.eval_interval and any(d.role == "eval" for d in self.data):
            raise ValueError("data of the role eval is never used: set `run.eval_interval`")
        return self

    def recorded(self) -> dict[str, Any]:
        """All of it as plain JSON, as a run records it."""
        return self.model_dump(mode="json")


def read_settings(path: Path) -> Settings:
    """The settings that a file holds; relative paths in it are told from its folder.

    Raises:
        InvalidInput: reason INVALID_FILE, with every place that is wrong.
    """
    try:
        said = tomllib.loads(path.read_text("utf-8"))
    except OSError as error:
        raise _bad(path, error.strerror or str(error)) from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise _bad(path, str(error)) from None
    try:
        return _from_folder(Settings.model_validate(said), path.absolute().parent)
    except ValidationError as error:
        problems = problems_of(Settings, error)
        raise _bad(path, f"{problems[0].place}: {problems[0].message}", problems) from None


def problems_of(kind: type[BaseModel], error: ValidationError) -> list[Problem]:
    """What is wrong, with dotted keys as places; unknown keys first: one may be a needed one, misspelt."""
    found = sorted(error.errors(), key=lambda e: e["type"] != "extra_forbidden")
    return [Problem(_place(e["loc"]), _message(kind, e["loc"], e["type"], e["msg"])) for e in found]


def _message(kind: type[BaseModel], loc: tuple[int | str, ...], error_type: str, message: str) -> str:
    if error_type == "missing":
        return "is needed"
    if error_type != "extra_forbidden":
        return message.removeprefix("Value error, ")
    known = [name for part in _parts_at(kind, loc[:-1]) for name in part.model_fields]
    near = difflib.get_close_matches(str(loc[-1]), known, n=1)
    return f"there is no such key; did you mean {near[0]}?" if near else "there is no such key"


def _parts_at(kind: type[BaseModel], loc: tuple[int | str, ...]) -> list[type[BaseModel]]:
    """The tables that may stand at a place."""
    parts = [kind]
    for key in loc:
        if isinstance(key, str):
            fields = [part.model_fields[key] for part in parts if key in part.model_fields]
            parts = [part for field in fields for part in _parts_in(field.annotation)]
    return parts


def _parts_in(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for inner in get_args(annotation):
        yield from _parts_in(inner)


def _from_folder(settings: Settings, folder: Path) -> Settings:
    run = settings.run.model_copy(update={"folder": folder / settings.run.folder})
    model = settings.model
    if model.path is not None:
        model = model.model_copy(update={"path": folder / model.path})
    return settings.model_copy(update={"run": run, "model": model})


def _place(loc: tuple[int | str, ...]) -> str:
    return ".".join(str(part) for part in loc) or "the file"


def _bad(path: Path, why: str, problems: list[Problem] | None = None) -> InvalidInput:
    return InvalidInput(
        f"{path} holds no settings of a run: {why}",
        reason="INVALID_FILE",
        remedy="Mend what is named; `ledger train --example` prints settings to begin with.",
        details={"file": str(path)},
        problems=problems or [],
    )
