"""Which tensors of a save are the model's, under which prefix, and what is left out and why.

- Every tensor that the model has must be there, in its shape; a tensor under the prefix that is neither the model's nor
  the optimizer's refuses the export. Nothing is renamed but the one prefix, and nothing is made up.
- A prefix is not guessed: it is the only one under which all of the model's names are found.
- A tensor that is tied to another one is saved as that one alone, and must be equal to it: see `weights`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from ledger.client.exports.headers import Tensor
from ledger.core.errors import InvalidInput, LedgerError, Problem
from ledger.core.text import harmless
from services.exporter.architectures import Architecture
from services.exporter.saves import Save

HEAD: Final = "lm_head.weight"
_OPTIMIZER: Final = frozenset({"optim", "optimizer", "optimizers", "exp_avg", "exp_avg_sq", "max_exp_avg_sq"})
_MOMENTS: Final = frozenset({"step", "momentum_buffer", "square_avg", "grad_avg"})
"""What optimizers keep of a tensor, as the last part of a name that begins with the tensor's."""
_NAMED: Final = 5


@dataclass(frozen=True)
class Expected:
    """The tensors that an export must have."""

    named: str
    """What says so, for people."""
    shapes: Mapping[str, tuple[int, ...]]
    tied: Mapping[str, str]


@dataclass(frozen=True)
class Selection:
    """Tensors by their names in the export, in the model's order, and those of the save that they are."""

    names: Mapping[str, str]
    tied: Mapping[str, str]
    """Of the save: a tensor that is left out, and the one that it must be equal to."""
    prefix: str
    optimizer: int
    """Tensors of the optimizer's."""
    others: tuple[str, ...]
    """Tensors outside the prefix that are nobody's here, such as a critic's."""
    objects: int
    """What is no tensor."""


def expected(architecture: Architecture, base: Mapping[str, Tensor] | None) -> Expected:
    """By the configuration; by the base's files, where tensors have other names in files than at work.

    Raises:
        LedgerError: reason NOT_SUPPORTED, if neither can say it.
    """
    if not architecture.converted:
        return Expected(architecture.name, architecture.shapes, architecture.tied)
    if base is None:
        raise LedgerError(
            f"{architecture.name} has other tensors in files than at work, and only a base model's files name them",
            reason="NOT_SUPPORTED",
            remedy="Name the folder of the model that training began with by --base.",
        )
    shapes = {name: tensor.shape for name, tensor in base.items()}
    return Expected("the base model", shapes, {k: v for k, v in architecture.tied.items() if v in shapes})


def select(save: Save, wanted: Expected, *, prefix: str | None = None) -> Selection:
    """Finds the model's tensors in a save.

    Raises:
        InvalidInput: reason INVALID_FILE, if they are not all there, or others are; USAGE, if the prefix is not clear.
    """
    under = _prefix(save, wanted) if prefix is None else prefix
    names = {name: under + name for name in wanted.shapes}
    problems = [Problem(under + name, "is not in the checkpoint") for name in names if names[name] not in save.tensors]
    problems += [
        Problem(there, f"is {list(save.tensors[there].shape)}, and {wanted.named} has {list(wanted.shapes[name])}")
        for name, there in names.items()
        if there in save.tensors and save.tensors[there].shape != wanted.shapes[name]
    ]
    if problems:
        raise _unfit(save, wanted, problems)
    tied = {under + name: under + other for name, other in wanted.tied.items() if under + name in save.tensors}
    rest = [name for name in save.tensors if name not in tied and name not in set(names.values())]
    optimizer = {name for name in rest if _is_optimizer(name, set(names.values()))}
    left = [name for name in rest if name not in optimizer]
    strange = [name for name in left if not under or name.startswith(under)]
    if strange:
        raise _unfit(save, wanted, [Problem(name, f"is no tensor of {wanted.named}") for name in strange])
    return Selection(names, tied, under, len(optimizer), tuple(sorted(left)), len(save.others))


def _prefix(save: Save, wanted: Expected) -> str:
    """The one under which all names are found; where none is, the empty one, so that what is missing can be told."""
    longest = max(wanted.shapes, key=len)
    found = [
        prefix for prefix in sorted(_before(save, longest)) if all(prefix + n in save.tensors for n in wanted.shapes)
    ]
    if len(found) > 1:
        shown = ", ".join(repr(harmless(prefix[:100])) for prefix in found[:_NAMED])
        raise InvalidInput(
            f"{save.folder} holds {len(found)} models of these names, under the prefixes {shown}",
            reason="USAGE",
            remedy="Say with --prefix which of them it is.",
        )
    return found[0] if found else ""


def _before(save: Save, name: str) -> Iterator[str]:
    for there in save.tensors:
        prefix = there.removesuffix(name)
        parts = prefix.removesuffix(".").split(".")
        if prefix != there and (not prefix or prefix.endswith(".")) and not _OPTIMIZER.intersection(parts):
            yield prefix


def _is_optimizer(name: str, model: set[str]) -> bool:
    parts = name.split(".")
    owner, _, kind = name.rpartition(".")
    return bool(_OPTIMIZER.intersection(parts)) or (kind in _MOMENTS and owner in model)


def _unfit(save: Save, wanted: Expected, problems: list[Problem]) -> InvalidInput:
    first = f"{harmless(problems[0].place[:200])} {problems[0].message}"
    some = ", ".join(harmless(name[:100]) for name in sorted(save.tensors)[:_NAMED])
    return InvalidInput(
        f"{save.folder} does not hold {wanted.named} as it is named in files: {first} ({len(problems):,} in all; it "
        f"holds {len(save.tensors):,} tensors, such as {some})",
        reason="INVALID_FILE",
        remedy="Name the prefix by --prefix, or the right configuration by --base. The names of a Megatron checkpoint "
        "are its own: only its trainer's bridge can convert them.",
        details={"folder": str(save.folder)},
        problems=problems[:100],
    )
