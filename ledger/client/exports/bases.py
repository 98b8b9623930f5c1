"""An export beside the model that training began with: the same tensors, and other weights.

base_tensors       names, shapes and types are the base's; types are those expected, if any were named; the output
                   layer of tied weights is left out, or is the embedding matrix; no two names were exchanged
differs_from_base  at least one byte of a tensor is another: equal everywhere, nothing was trained or exported
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from ledger.client.cards.text import counted
from ledger.client.exports import samples
from ledger.client.exports.configurations import Configuration
from ledger.client.exports.weights import Held, Weights, equal, recordable
from ledger.events.exports import Check

HEAD: Final = "lm_head.weight"
_EMBEDDINGS: Final = ("embed_tokens.weight", "wte.weight", "word_embeddings.weight", "embed_in.weight")


@dataclass(frozen=True)
class Model:
    """Weights and what their configuration says."""

    weights: Weights
    configuration: Configuration
    tensors: Mapping[str, Held]

    @property
    def is_readable(self) -> bool:
        return bool(self.weights.shards) and not self.weights.unread


@dataclass(frozen=True)
class Fault:
    """What is wrong, and with which tensor, in which file."""

    detail: str
    tensor: str
    file: str | None = None


def base_tensors(model: Model, base: Model | None, dtypes: Collection[str]) -> Check | Fault:
    """The check by this name; a Fault where it fails.

    Raises:
        LedgerError: if a place cannot be read.
    """
    if not model.is_readable:
        return _not_checked("base_tensors", "not every header could be read")
    faults = [*_tied(model), *_unexpected(model, dtypes)]
    if base is not None and not faults:
        faults = [*_keys(model, base), *_shapes(model, base), *_types(model, base, dtypes)]
    if faults:
        return faults[0]
    told = _told_of_heads(model) + ([f"all of {' or '.join(sorted(dtypes))}"] if dtypes else [])
    if base is None:
        return _not_checked("base_tensors", "; ".join(["the base model is not here", *told]))
    common = sorted(model.tensors.keys() & base.tensors.keys())
    compared = samples.compare(model.weights, base.weights, common)
    if compared.exchanged:
        return _exchanged(model, compared)
    told = [f"{counted(len(common), 'tensor')} with the base's names and shapes", *told, _files(model, base)]
    return Check(name="base_tensors", outcome="passed", detail="; ".join([*told, compared.told]))


def differs_from_base(model: Model, base: Model | None) -> Check | Fault:
    """The check by this name; a Fault where it fails.

    Raises:
        LedgerError: if a place cannot be read.
    """
    if base is None:
        return _not_checked("differs_from_base", "the base model is not here")
    comparable = [name for name in model.tensors if _is_comparable(name, model, base)]
    for before, name in enumerate(comparable):
        if not equal((model.weights, model.tensors[name]), (base.weights, base.tensors[name])):
            detail = f"{recordable(name)} differs, after {counted(before, 'tensor')} that did not"
            return Check(name="differs_from_base", outcome="passed", detail=detail)
    left = len(model.tensors) - len(comparable)
    if left or not comparable:
        reason = f"{counted(left, 'tensor')} cannot be compared by bytes, and all others are equal"
        return _not_checked("differs_from_base", reason)
    first = model.tensors[comparable[0]]
    return Fault(f"all {counted(len(comparable), 'tensor')} are equal to the base's", comparable[0], first.shard.name)


def _is_comparable(name: str, model: Model, base: Model) -> bool:
    """Whether both have the tensor's bytes, of one type and shape."""
    here, there = model.tensors[name], base.tensors.get(name)
    if there is None or not (here.shard.is_whole and there.shard.is_whole):
        return False
    return (here.tensor.dtype, here.tensor.shape) == (there.tensor.dtype, there.tensor.shape)


def _tied(model: Model) -> Iterator[Fault]:
    """An output layer that is saved although it is tied must be what the embeddings are: readers take either."""
    head, embeddings = model.tensors.get(HEAD), _embeddings(model)
    if not model.configuration.tied_weights or head is None:
        return
    if embeddings is None or not (head.shard.is_whole and embeddings.shard.is_whole):
        return
    if not equal((model.weights, head), (model.weights, embeddings)):
        yield Fault(
            f"config.json says that the weights are tied, and it differs from {recordable(embeddings.tensor.name)}",
            HEAD,
            head.shard.name,
        )


def _embeddings(model: Model) -> Held | None:
    return next((held for name, held in model.tensors.items() if name.endswith(_EMBEDDINGS)), None)


def _told_of_heads(model: Model) -> list[str]:
    if model.configuration.tied_weights is None:
        return []
    if not model.configuration.tied_weights:
        return ["weights not tied"]
    return [f"weights tied, {HEAD} {'equal to the embeddings' if HEAD in model.tensors else 'left out'}"]


def _unexpected(model: Model, dtypes: Collection[str]) -> Iterator[Fault]:
    if not dtypes:
        return
    wrong = [held for held in model.tensors.values() if held.tensor.dtype not in dtypes]
    if wrong:
        first = wrong[0]
        detail = f"{counted(len(wrong), 'tensor')} of another type than {' or '.join(sorted(dtypes))}: this one is "
        yield Fault(f"{detail}{first.tensor.dtype}", first.tensor.name, first.shard.name)


def _keys(model: Model, base: Model) -> Iterator[Fault]:
    missing = base.tensors.keys() - model.tensors.keys()
    extra = model.tensors.keys() - base.tensors.keys()
    if HEAD in missing | extra and _agree_on_tied(model, base):
        missing, extra = missing - {HEAD}, extra - {HEAD}
    if missing:
        name = min(missing)
        detail = f"{counted(len(missing), 'tensor')} of the base not here; there this one is in "
        hint = ", and config.json does not say that the weights are tied" if name == HEAD else ""
        yield Fault(f"{detail}{base.tensors[name].shard.name}{hint}", name)
    if extra:
        name = min(extra)
        detail = f"{counted(len(extra), 'tensor')} that the base does not have"
        yield Fault(detail, name, model.tensors[name].shard.name)


def _agree_on_tied(model: Model, base: Model) -> bool:
    """Whether one may save the output layer and the other leave it out."""
    return model.configuration.tied_weights is True and base.configuration.tied_weights is not False


def _shapes(model: Model, base: Model) -> Iterator[Fault]:
    wrong = [h for n, h in model.tensors.items() if n in base.tensors and _shape(h) != _shape(base.tensors[n])]
    if wrong:
        first = wrong[0]
        there = list(_shape(base.tensors[first.tensor.name]))
        detail = (
            f"{counted(len(wrong), 'tensor')} of another shape than the base's: this one is {list(_shape(first))}, "
        )
        yield Fault(f"{detail}and there {there}", first.tensor.name, first.shard.name)


def _shape(held: Held) -> tuple[int, ...]:
    return held.tensor.shape


def _types(model: Model, base: Model, dtypes: Collection[str]) -> Iterator[Fault]:
    """Without a word of which types are expected, they are the base's."""
    if dtypes:
        return
    wrong = [
        h for n, h in model.tensors.items() if n in base.tensors and h.tensor.dtype != base.tensors[n].tensor.dtype
    ]
    if wrong:
        first = wrong[0]
        there = base.tensors[first.tensor.name].tensor.dtype
        detail = f"{counted(len(wrong), 'tensor')} of another type than the base's: this one is {first.tensor.dtype}, "
        yield Fault(f"{detail}and there {there}", first.tensor.name, first.shard.name)


def _exchanged(model: Model, compared: samples.Compared) -> Fault:
    name, other = compared.exchanged[0]
    detail = (
        f"{counted(len(compared.exchanged), 'tensor')} with another's name, by a comparison of samples: "
        f"this one is far nearer to the base's {recordable(other)} than to its namesake"
    )
    return Fault(detail, name, model.tensors[name].shard.name)


def _files(model: Model, base: Model) -> str:
    """Some writers keep the base's files, and then another number of them is a sign; others deal tensors anew."""
    if model.weights.files == base.weights.files:
        return f"in {counted(len(model.weights.files), 'file')} of the base's names"
    return f"in {counted(len(model.weights.files), 'file')}, the base in {len(base.weights.files):,} of other names"


def _not_checked(name: str, reason: str) -> Check:
    return Check(name=name, outcome="not_checked", detail=reason)
