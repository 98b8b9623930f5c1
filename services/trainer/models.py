"""The model that a run starts from, with its tokenizer and what the ledger is told of it.

- Nothing is ever fetched: a model is built in code, or read from files that are named.
- What a model is, is said by a digest over its weight files. A de-quantised model says so in its name: it is not the
  model that was quantised.
- Weights that are missing, left over, or of another shape refuse the model: nothing is made up in their place.
- Pickles are not loaded.
- On a CPU attention is the plain one, whose sums have one order.
- A model brings no sampling defaults of its own: what is sampled is decided by the run's settings.
"""

# ruff: noqa: PLC0415  # torch and transformers are of an extra, slow to import, and asked for first by `require`

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ledger.client.recording.files import read_files
from ledger.core.errors import InvalidInput, LedgerError, Problem
from ledger.events.runs import ModelRef
from services.trainer.settings import Model, Origin

if TYPE_CHECKING:
    import torch
    from transformers import PretrainedConfig, PreTrainedModel, PreTrainedTokenizerBase

PACKAGES: Final = ("torch", "transformers", "safetensors")
GGUF_PACKAGES: Final = ("gguf", "accelerate")
SINGLE: Final = "model.safetensors"
INDEX: Final = "model.safetensors.index.json"
HEAD: Final = "lm_head.weight"
"""The name of the output layer, which a model with tied embeddings does not have."""


@dataclass(frozen=True)
class LoadedModel:
    """A model at work."""

    model: PreTrainedModel
    tokenizer: PreTrainedTokenizerBase
    ref: dict[str, Any]
    """What it is, as `run.declared` has it under `rl_start`."""
    root: dict[str, Any] | None
    """What it descends from, as `run.declared` has it under `root_architecture`."""
    device: torch.device
    stop_ids: tuple[int, ...]
    """The tokens that end an answer."""

    def prompt_ids(self, prompt: str) -> list[int]:
        """A user's message as the model reads it, up to where its answer begins."""
        if self.tokenizer.chat_template is None:
            return list(self.tokenizer(prompt)["input_ids"])
        messages = [{"role": "user", "content": prompt}]
        return list(self.tokenizer.apply_chat_template(messages, add_generation_prompt=True, return_dict=False))

    def text_of(self, token_ids: Sequence[int]) -> str:
        """An answer as text, without the tokens that end it."""
        return str(self.tokenizer.decode(list(token_ids), skip_special_tokens=True))


def require() -> None:
    """Says that no model can be loaded here, before anything is read.

    Raises:
        LedgerError: reason EXTRA_MISSING, if a package is not there.
    """
    missing = [name for name in PACKAGES if find_spec(name) is None]
    if missing:
        raise _missing(", ".join(missing), "a trainer needs")


def load(settings: Model) -> LoadedModel:
    """Builds the model or reads its files.

    Raises:
        LedgerError: reason EXTRA_MISSING, if a package is not there.
        InvalidInput: reason INVALID_FILE, if the files hold no whole model; USAGE, if there is no such device.
    """
    require()
    device = _device(settings.device)
    with _quietly():
        model, tokenizer, ref = {"tiny-qwen3": _tiny, "folder": _folder, "gguf": _gguf}[settings.kind](settings, device)
    if tokenizer.pad_token is None:
        tokenizer.pad_token = tokenizer.eos_token
    stop_ids = _stop_ids(model, tokenizer)
    model.generation_config = _generation_config(stop_ids, tokenizer.pad_token_id)
    model.config.architectures = [type(model).__name__]  # engines choose by it how a folder is to be run
    return LoadedModel(
        model=model.to(device).eval(),
        tokenizer=tokenizer,
        ref=ref.model_dump(mode="json"),
        root=None if settings.root is None else _ref(settings.root).model_dump(mode="json"),
        device=device,
        stop_ids=stop_ids,
    )


def full_names(model: PreTrainedModel) -> dict[str, torch.Tensor]:
    """The model's parameters and lasting buffers by their Hugging Face names, tied ones once by the first name."""
    named: dict[str, torch.Tensor] = {}
    seen: set[int] = set()
    for name, tensor in model.state_dict(keep_vars=True).items():
        if id(tensor) not in seen:
            seen.add(id(tensor))
            named[name] = tensor
    return named


def save_huggingface(
    model_config: PretrainedConfig,
    tokenizer: PreTrainedTokenizerBase,
    folder: Path,
    *,
    stop_ids: Sequence[int] = (),
    temperature: float | None = None,
) -> None:
    """Writes what a folder of Hugging Face files holds beside the weights.

    The generation defaults say how the run sampled, where its `temperature` is given: from all of the vocabulary.
    They are written out, since a reader has defaults of its own for what is left out, such as the best 50 tokens.
    Without it they say nothing but which tokens end an answer.
    """
    folder.mkdir(parents=True, exist_ok=True)
    model_config.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    ends = tuple(stop_ids) or _ids(model_config.eos_token_id) or _ids(tokenizer.eos_token_id)
    _generation_config(ends, tokenizer.pad_token_id, temperature).save_pretrained(folder)


def _tiny(settings: Model, device: torch.device) -> tuple[PreTrainedModel, PreTrainedTokenizerBase, ModelRef]:
    from safetensors.torch import save

    from services.trainer.tiny_models import build_model, build_tokenizer

    del device  # it is built on the CPU, where a seed gives the same weights on every machine
    model = build_model(settings.seed, settings.hidden_size, settings.layers, tied=settings.tied)
    _cast(model, _dtype(settings))
    weights = save({name: tensor.detach() for name, tensor in full_names(model).items()}, metadata={"format": "pt"})
    tied = "tied" if settings.tied else "not tied"
    name = f"tiny-qwen3 of seed {settings.seed}, {settings.layers} layers of {settings.hidden_size}, {tied}"
    ref = _ref(settings.origin or Origin(name=name), model, hashlib.sha256(weights).hexdigest())
    return model, build_tokenizer(), ref


def _folder(settings: Model, device: torch.device) -> tuple[PreTrainedModel, PreTrainedTokenizerBase, ModelRef]:
    from transformers import AutoModelForCausalLM

    folder = _path(settings)
    if not (folder / "config.json").is_file():
        raise _bad(folder, "it is no folder with a config.json", "Name a folder of Hugging Face files.")
    files = _weight_files(folder)
    model = _read(AutoModelForCausalLM, folder, settings, device, use_safetensors=True)
    _has_names_of_files(model, folder, files)
    digest = _digest([folder / name for name in files])
    return model, _tokenizer(folder, model), _ref(settings.origin or Origin(name=folder.name), model, digest)


def _gguf(settings: Model, device: torch.device) -> tuple[PreTrainedModel, PreTrainedTokenizerBase, ModelRef]:
    missing = [name for name in GGUF_PACKAGES if find_spec(name) is None]
    if missing:
        raise _missing(", ".join(missing), "a GGUF file is read with")
    from transformers import AutoModelForCausalLM, GgufConfig

    path = _path(settings)
    if not path.is_file():
        raise _bad(path, "there is no such file", "Name a GGUF file.")
    how = GgufConfig(dequantize=True)
    model = _read(AutoModelForCausalLM, path.parent, settings, device, gguf_file=path.name, quantization_config=how)
    origin = settings.origin or Origin(name=path.name)
    named = origin.model_copy(update={"name": f"{origin.name}, de-quantised"})
    return model, _tokenizer(path.parent, model, gguf_file=path.name), _ref(named, model, _digest([path]))


def _read(auto: Any, folder: Path, settings: Model, device: torch.device, **how: Any) -> PreTrainedModel:
    """A model from local files, whole."""
    from safetensors import SafetensorError

    try:
        model, told = auto.from_pretrained(
            folder,
            local_files_only=True,
            trust_remote_code=False,
            dtype=_dtype(settings),
            attn_implementation="eager" if device.type == "cpu" else "sdpa",
            output_loading_info=True,
            ignore_mismatched_sizes=True,  # so that they are told by name, and refused below
            **how,
        )
    except (OSError, ValueError, RuntimeError, KeyError, ImportError, SafetensorError) as error:
        raise _bad(_path(settings), f"no model could be read: {_first_line(error)}") from None
    problems = [Problem(str(name), "is missing") for name in sorted(told["missing_keys"])]
    problems += [Problem(str(name), "belongs to no part of the model") for name in sorted(told["unexpected_keys"])]
    problems += [Problem(str(one[0]), "has another shape than the model") for one in sorted(told["mismatched_keys"])]
    if problems:
        raise _not_whole(_path(settings), problems)
    return model


def _tokenizer(folder: Path, model: PreTrainedModel, **how: Any) -> PreTrainedTokenizerBase:
    """The model's tokenizer. Where its files are missing, transformers makes one up that knows no text at all."""
    from transformers import AutoTokenizer

    try:
        tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True, trust_remote_code=False, **how)
    except (OSError, ValueError, KeyError, ImportError) as error:
        raise _bad(folder, f"no tokenizer could be read: {_first_line(error)}") from None
    known, rows = max(tokenizer.get_vocab().values(), default=-1) + 1, model.get_input_embeddings().weight.shape[0]
    if set(tokenizer.get_vocab()) <= set(tokenizer.all_special_tokens):
        raise _bad(folder, "no tokenizer could be read: there are no files of one")
    if known > rows:
        raise _bad(folder, f"its tokenizer has {known:,} tokens, and the model only {rows:,}")
    return tokenizer


def _weight_files(folder: Path) -> list[str]:
    """The names of the files that the model is read from."""
    single, index = folder / SINGLE, folder / INDEX
    if single.is_file() and index.is_file():
        raise _bad(folder, f"it has both {SINGLE} and {INDEX}", "Remove the one that is out of date.")
    if single.is_file():
        return [SINGLE]
    if not index.is_file():
        raise _bad(folder, "it has no safetensors weights", "Convert them first: pickled weights are not loaded.")
    try:
        names = sorted(set(json.loads(index.read_bytes())["weight_map"].values()))
    except (ValueError, KeyError, TypeError, AttributeError):
        raise _bad(index, "it is no index of safetensors files") from None
    problems = [Problem(str(name), "is not there") for name in names if not (folder / str(name)).is_file()]
    problems += [Problem(str(name), "lies outside the folder") for name in names if Path(str(name)).name != name]
    if problems or not names:
        raise _not_whole(folder, problems or [Problem("weight_map", "is empty")])
    return names


def _has_names_of_files(model: PreTrainedModel, folder: Path, files: Sequence[str]) -> None:
    """Refuses a model whose parameters have other names at work: its checkpoints could not be exported as they are."""
    from safetensors import safe_open

    stored: set[str] = set()
    for name in files:
        with safe_open(folder / name, framework="pt") as shard:
            stored.update(shard.keys())
    held = set(full_names(model))
    if getattr(model.config, "tie_word_embeddings", False):
        stored.discard(HEAD)
    if stored != held:
        raise LedgerError(
            f"{folder} holds a {model.config.model_type}, whose weights have other names in files than at work: "
            f"for example {min(stored ^ held)}",
            reason="NOT_SUPPORTED",
            remedy="Train a model whose layers are stored as they are computed: a dense one, such as Qwen3 or Llama.",
        )


def _ref(origin: Origin, model: PreTrainedModel | None = None, digest: str | None = None) -> ModelRef:
    parameters = None if model is None else sum(parameter.numel() for parameter in model.parameters())
    return ModelRef(**origin.model_dump(), digest=digest, parameters=parameters)


def _digest(paths: Sequence[Path]) -> str:
    """The SHA-256 of the one file; of several, that of the lines that `sha256sum` prints."""
    files = read_files(paths)
    return files.files[0].sha256 or files.digest if len(files.files) == 1 else files.digest


def _stop_ids(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> tuple[int, ...]:
    """What the model's own generation defaults say, else its configuration, else its tokenizer."""
    said = [model.generation_config.eos_token_id, model.config.eos_token_id, tokenizer.eos_token_id]
    return next((ids for ids in map(_ids, said) if ids), ())


def _ids(said: int | Sequence[int] | None) -> tuple[int, ...]:
    if said is None:
        return ()
    return (said,) if isinstance(said, int) else tuple(said)


def _generation_config(stop_ids: Sequence[int], pad_id: int | None, temperature: float | None = None) -> Any:
    from transformers import GenerationConfig

    ends = stop_ids[0] if len(stop_ids) == 1 else list(stop_ids) or None
    if temperature is None:
        return GenerationConfig(eos_token_id=ends, pad_token_id=pad_id)
    return GenerationConfig(
        eos_token_id=ends, pad_token_id=pad_id, do_sample=True, temperature=temperature, top_k=0, top_p=1.0
    )


def _cast(model: PreTrainedModel, dtype: torch.dtype) -> None:
    """The parameters alone, as when they are read from files: positions keep their frequencies in float32."""
    for parameter in model.parameters():
        parameter.data = parameter.data.to(dtype)
    model.config.dtype = dtype


def _dtype(settings: Model) -> torch.dtype:
    import torch

    return {"float32": torch.float32, "bfloat16": torch.bfloat16}[settings.dtype]


def _device(name: str) -> torch.device:
    import torch

    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        raise InvalidInput(
            f"model.device: there is no {name!r} here: {_first_line(error)}",
            reason="USAGE",
            remedy='Write "auto", "cpu", or the name of a device that torch sees.',
        ) from None
    return device


@contextmanager
def _quietly() -> Iterator[None]:
    """Without bars of progress: a trainer prints a line a step, and nothing else."""
    from transformers.utils import logging

    shown = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        if shown:
            logging.enable_progress_bar()


def _path(settings: Model) -> Path:
    if settings.path is None:
        raise _bad(Path(), f"a model of the kind {settings.kind} needs a path")
    return settings.path


def _first_line(error: BaseException) -> str:
    text: str = str(error).strip() or type(error).__name__
    return text.partition("\n")[0][:300]


def _missing(packages: str, why: str) -> LedgerError:
    return LedgerError(
        f"{why} {packages}, which is not installed",
        reason="EXTRA_MISSING",
        remedy="Run `pip install 'atlas-ledger[train]'`.",
        details={"extra": "train"},
    )


def _bad(path: Path, why: str, remedy: str = "Name the files of one whole model.") -> InvalidInput:
    return InvalidInput(
        f"{path} holds no model to train: {why}", reason="INVALID_FILE", remedy=remedy, details={"file": str(path)}
    )


def _not_whole(path: Path, problems: Sequence[Problem]) -> InvalidInput:
    first = f"{problems[0].place} {problems[0].message}"
    more = f", and {len(problems) - 1} more" if len(problems) > 1 else ""
    return InvalidInput(
        f"{path} holds no whole model: {first}{more}",
        reason="INVALID_FILE",
        remedy="Fetch or export the model again; what is missing would else start from chance.",
        details={"file": str(path)},
        problems=problems,
    )
