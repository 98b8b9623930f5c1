"""Which tensors a model has, by its configuration: it is built without memory for its weights, and asked.

A model whose layers are stored otherwise than they are computed (experts that are fused at work) has other names in
files: they cannot be told from the configuration, and are taken from a base model's files where there is one.
"""

# ruff: noqa: PLC0415  # torch and transformers are of an extra, and slow to import

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from ledger.core.errors import InvalidInput, LedgerError

PACKAGES: Final = ("torch", "transformers", "safetensors")


@dataclass(frozen=True)
class Architecture:
    """The tensors of a model, in the model's own order."""

    name: str
    shapes: Mapping[str, tuple[int, ...]]
    tied: Mapping[str, str]
    """A tensor that is another one, by name: it is saved as that one alone."""
    converted: bool = False
    """Its tensors have other names, or shapes, in files."""


def require() -> None:
    """Says that nothing can be exported here, before anything is read.

    Raises:
        LedgerError: reason EXTRA_MISSING, if a package is not there.
    """
    missing = [name for name in PACKAGES if find_spec(name) is None]
    if missing:
        raise LedgerError(
            f"an export reads checkpoints with {', '.join(missing)}, which is not installed",
            reason="EXTRA_MISSING",
            remedy="Run `pip install 'atlas-ledger[train]'`.",
            details={"extra": "train"},
        )


def read_architecture(folder: Path) -> Architecture:
    """The model that a folder's config.json describes. No code of the folder is run.

    Raises:
        InvalidInput: reason INVALID_FILE, if it describes none that this release of transformers knows.
    """
    import torch
    import transformers

    try:
        config = transformers.AutoConfig.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
        kind = _class(transformers, config)
        with torch.device("meta"):
            model = kind._from_config(config)  # noqa: SLF001  # what every one of its public ways comes down to
        return _described(kind.__name__, model)
    except LedgerError:
        raise
    except Exception as error:  # a configuration of other values than the model expects raises anything
        raise _bad(folder, f"{type(error).__name__}: {str(error).partition(chr(10))[0][:300]}") from error


def _class(transformers: Any, config: Any) -> Any:
    """By the name that it has, or else the one that continues texts."""
    names = config.architectures or []
    if not names:
        return transformers.MODEL_FOR_CAUSAL_LM_MAPPING[type(config)]
    kind = getattr(transformers, str(names[0]), None)
    if isinstance(kind, type) and issubclass(kind, transformers.PreTrainedModel):
        return kind
    raise LookupError(f"transformers has no model {names[0]!r}")


def _described(name: str, model: Any) -> Architecture:
    from transformers.conversion_mapping import WeightConverter, get_model_conversion_mapping

    shapes: dict[str, tuple[int, ...]] = {}
    tied: dict[str, str] = {}
    seen: dict[int, str] = {}
    for tensor_name, tensor in model.state_dict(keep_vars=True).items():
        first = seen.setdefault(id(tensor), tensor_name)
        if first == tensor_name:
            shapes[tensor_name] = tuple(tensor.shape)
        else:
            tied[tensor_name] = first
    conversions = get_model_conversion_mapping(model, add_legacy=False)
    return Architecture(name, shapes, tied, any(isinstance(each, WeightConverter) for each in conversions))


def _bad(folder: Path, why: str) -> InvalidInput:
    return InvalidInput(
        f"{folder / 'config.json'} describes no model that can be exported: {why}",
        reason="INVALID_FILE",
        remedy="Name a folder with the model's own config.json by --base.",
        details={"file": str(folder / "config.json")},
    )
