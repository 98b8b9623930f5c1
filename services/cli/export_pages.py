"""What is told of an export: the nine checks, and the facts that its files make."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from rich.text import Text

from ledger.client.exports.checks import Checked
from services.cli import words
from services.cli.output import Output
from services.cli.source_facts import Pairs
from services.exporter.exporting import Exported

_STYLES = {"passed": "green", "failed": "bold red", "not_checked": "yellow"}


def show_checks(out: Output, checked: Checked) -> None:
    """One row a check. Tensor and file stand there where a check named some: a failed one does."""
    named = any(check.tensor or check.file for check in checked.checks)
    where = ["tensor", "file"] if named else []
    out.table(
        ["check", "outcome", *where, "detail"],
        [
            [
                check.name,
                Text(check.outcome.replace("_", " "), style=_STYLES[check.outcome]),
                *([check.tensor or "-", check.file or "-"] if named else []),
                check.detail or "-",
            ]
            for check in checked.checks
        ],
        whole=("check", "outcome", *where),
    )


def facts(checked: Checked) -> Pairs:
    """What the files themselves say."""
    tied, generation = checked.tied_weights, checked.generation
    yield "shards", len(checked.shards)
    yield "parameters", f"{checked.parameter_count:,} ({checked.size_label})"
    yield "types", ", ".join(checked.dtypes) or "-"
    yield "total size", f"{checked.tensor_bytes:,} bytes in {words.counted(checked.tensor_count, 'tensor')}"
    yield "tied weights", "not said" if tied is None else "yes" if tied else "no"
    if generation is None:
        yield "generation", "no generation_config.json"
    else:
        sampling = ", ".join(f"{name} {value}" for name, value in generation.sampling.items()) or "no sampling defaults"
        yield "generation", f"{sampling} (sha256 {generation.sha256})"


def as_dict(checked: Checked) -> dict[str, Any]:
    """The same for programs."""
    generation = checked.generation
    return {
        "location": checked.location,
        "verified": checked.is_verified,
        "why_not": checked.why_not or None,
        "checks": [check.model_dump() for check in checked.checks],
        "numbers": None if checked.numbers is None else checked.numbers.model_dump(),
        "shards": [shard.name for shard in checked.shards],
        "total_size": checked.tensor_bytes,
        "tensors": checked.tensor_count,
        "parameters": checked.parameter_count,
        "size_label": checked.size_label,
        "dtypes": checked.dtypes,
        "tied_weights": checked.tied_weights,
        "generation_config": None
        if generation is None
        else {"sha256": generation.sha256, "sampling": dict(generation.sampling)},
    }


def exported_pairs(exported: Exported) -> Pairs:
    """What was exported, and what of the checkpoint was not."""
    selection = exported.selection
    yield "location", exported.location
    yield from facts(exported.checked)
    yield "compared", f"{words.counted(exported.compared, 'tensor')}, byte for byte with the checkpoint's"
    if selection.prefix:
        yield "prefix", selection.prefix
    yield "left out", ", ".join(_left_out(exported)) or "nothing"
    yield "digest", exported.files.digest
    yield "checkpoint", exported.digest_before
    if exported.signature is not None:
        yield "signature", str(exported.signature)


def exported_dict(exported: Exported) -> dict[str, Any]:
    """The same for programs."""
    selection = exported.selection
    return {
        **as_dict(exported.checked),
        "digest": exported.files.digest,
        "files": [file.model_dump() for file in exported.files.files],
        "checkpoint_digest": exported.digest_before,
        "compared": exported.compared,
        "prefix": selection.prefix,
        "left_out": {
            "tied": sorted(selection.tied),
            "optimizer": selection.optimizer,
            "others": list(selection.others),
            "objects": selection.objects,
        },
        "signature": None if exported.signature is None else str(exported.signature),
        "notes": list(exported.notes),
    }


def _left_out(exported: Exported) -> Iterable[str]:
    selection = exported.selection
    if selection.tied:
        yield f"{', '.join(sorted(selection.tied))} (tied)"
    if selection.optimizer:
        yield f"{words.counted(selection.optimizer, 'tensor')} of the optimizer"
    if selection.others:
        yield f"{words.counted(len(selection.others), 'tensor')} outside the prefix"
    if selection.objects:
        yield f"{words.counted(selection.objects, 'object')} that are no tensors"
