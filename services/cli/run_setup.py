"""What a run was set up to do: its data and their Quality then and now, its models, objective and machines."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ledger.client.cards.text import number
from ledger.wire import audit_pb2, provenance_pb2, runs_pb2
from services.cli import run_words, words
from services.cli.source_facts import Pairs

Dossier = runs_pb2.RunAsOfResponse


def data(found: Dossier) -> Pairs:
    """Each source as the run takes it, and its Quality at each moment that matters."""
    standing = {then.atlas_id: then for then in found.sources}
    for source in found.run.declared.sources:
        yield "source", _consumed(source)
        if (then := standing.pop(source.atlas_id, None)) is not None:
            yield from _then_and_now(then)
    for then in standing.values():
        yield "source", then.atlas_id
        yield from _then_and_now(then)
    declared = found.run.declared
    if declared.HasField("consumption_size"):
        cited = declared.consumption_receipt.sha256 if declared.HasField("consumption_receipt") else "no receipt"
        yield "checked at start", f"at size {declared.consumption_size:,}, {cited}"
    elif declared.sources:
        yield "checked at start", "nobody says that the sources were checked"


def _consumed(source: provenance_pb2.ConsumedSource) -> str:
    name = source.atlas_id if source.HasField("atlas_id") else f"{source.dataset_id}, of no known source of the Atlas"
    parts = [name, *(f"{what} {_revision(source, field)}" for what, field in _REVISIONS)]
    if source.HasField("task_count"):
        parts.append(words.counted(source.task_count, "task"))
    return ", ".join([*parts, "for evaluation"] if source.role == "eval" else parts)


def _revision(source: provenance_pb2.ConsumedSource, name: str) -> str:
    return run_words.known(source, name) or "unknown"


def _then_and_now(then: runs_pb2.SourceThenAndNow) -> Pairs:
    yield "  Quality at start", _rated(then, "at_start", then.start_size)
    if then.HasField("selection_size"):
        yield "  at the selection", _rated(then, "at_selection", then.selection_size)
    yield "  now", _rated(then, "now", None)
    if then.turned:
        yield "  turned since", f"{run_words.events(then.turned)}; `ledger turned` tells what"


def _rated(then: runs_pb2.SourceThenAndNow, name: str, size: int | None) -> str:
    at = "" if size is None else f" (size {size:,})"
    source: audit_pb2.Source | None = run_words.known(then, name)
    if source is None:
        return f"not listed{at}"
    open_ = f", {words.counted(len(source.open_defects), 'open defect')}" if source.open_defects else ""
    return f"{words.rated(source).plain}{open_}, difficulty {words.measured(source).plain}{at}"


def models(found: Dossier) -> Pairs:
    declared = found.run.declared
    yield "RL start", _model(declared.rl_start) if declared.HasField("rl_start") else None
    yield "root architecture", _model(declared.root_architecture) if declared.HasField("root_architecture") else None


def _model(model: provenance_pb2.ModelRef) -> str:
    commit = f" at {model.commit}" if model.HasField("commit") else ", commit unknown"
    return f"{model.repository if model.HasField('repository') else model.name}{commit}"


def objective(found: Dossier) -> Pairs:
    """What was optimised, and how much of each switch was in effect."""
    run, objective_ = found.run, found.run.objective
    for setting in objective_.identity:
        yield setting.name, setting.value + ("" if setting.origin == "declared" else ", by the configuration")
    named = {setting.name for setting in objective_.identity}
    yield from ((name, text) for name, text in _others(run.declared.algorithm) if name not in named)
    yield "clip", _in_words(objective_.clip)
    yield "KL", _in_words(objective_.kl)
    if objective_.HasField("tis_steps"):
        yield "TIS applied", f"on {objective_.tis_applied_steps:,} of {objective_.tis_steps:,} steps"
    for note in objective_.notes:
        yield "note", note
    for config in run.configs:
        drifted = ", not that of before" if config.drifted else ""
        yield f"config at {config.moment}", f"{config.digest} (attempt {config.attempt}){drifted}"


def _others(algorithm: provenance_pb2.Algorithm) -> Iterator[tuple[str, str]]:
    for field, value in algorithm.ListFields():
        if field.message_type is None:
            yield field.name, _as_text(value)


def _as_text(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return number(value) if isinstance(value, (int, float)) else str(value)


def _in_words(word: str) -> str | None:
    return None if word in {"", "unknown"} else run_words.spaced(word)


def infrastructure(found: Dossier) -> Pairs:
    declared = found.run.declared
    for code in declared.code:
        yield run_words.spaced(code.role), _software(code)
    if declared.HasField("parallelism"):
        yield "spread", ", ".join(_spread(declared.parallelism)) or None
    for name in ("sandbox_provider", "agent_harness"):
        if (named := run_words.known(declared, name)) and named not in {code.name for code in declared.code}:
            yield run_words.spaced(name), named
    yield "planned steps", run_words.value(declared, "planned_steps")
    yield "checkpoint interval", run_words.value(declared, "checkpoint_interval")


def _software(code: provenance_pb2.CodeRevision) -> str:
    parts = [code.name, *(getattr(code, name) for name in ("version", "repository") if run_words.known(code, name))]
    parts.append(f"commit {code.commit}" if code.HasField("commit") else "commit unknown")
    if code.HasField("dirty"):
        parts.append("with uncommitted changes" if code.dirty else "clean")
    return ", ".join(parts)


def _spread(parallelism: provenance_pb2.Parallelism) -> Iterable[str]:
    for field, value in parallelism.ListFields():
        yield f"{run_words.spaced(field.name)} {_as_text(value)}"


_REVISIONS = (("data", "dataset_revision"), ("verifier", "verifier_revision"))
