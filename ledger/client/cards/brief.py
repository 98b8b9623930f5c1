"""What a card says in brief: what was trained on what, how it ended, what was chosen and why, what nobody claims.

Each sentence stands on the events of the sections below it, and says no more than they do.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Final

from ledger.client.cards.claims import benchmarks
from ledger.client.cards.record import Record
from ledger.client.cards.selection import behind_best, best_of, checkpoints_of, recorded_numbers
from ledger.client.cards.sources import quality, quality_events
from ledger.client.cards.text import Part, Parts, code, counted, derived, known, listed, place, said, shown, words
from ledger.client.cards.training import anomaly_named, ended
from ledger.wire import audit_pb2

_DATASETS_TOLD: Final = 3


def in_brief(record: Record) -> Parts:
    if record.run.summary.sample:
        yield said("The run is a sample, made up for a demonstration", record.declared)
    yield from _trained(record)
    yield _ended(record)
    yield _chosen(record)
    yield from _data(record)
    yield _told_of_results(record)


def _trained(record: Record) -> Parts:
    """What started, by which estimator, on which data: as declared."""
    declared = record.run.declared
    if not record.run.HasField("declared"):
        return
    start = code(declared.rl_start.name) if declared.HasField("rl_start") else "a model that is not named"
    root = f" (root architecture {code(declared.root_architecture.name)})" if _is_other_root(record) else ""
    estimator = known(declared.algorithm, "advantage_estimator")
    by = f", with the advantage estimator {code(estimator)}," if estimator is not None else ""
    yield said(
        f"The run {code(record.run.summary.id)} trains {start}{root} by reinforcement learning{by} on "
        f"{_datasets(record)}",
        record.declared,
    )


def _is_other_root(record: Record) -> bool:
    declared = record.run.declared
    return declared.HasField("root_architecture") and declared.root_architecture.name != declared.rl_start.name


def _datasets(record: Record) -> str:
    names = [s.dataset_id for s in record.run.declared.sources if known(s, "role") != "eval"]
    told = [code(name) for name in names[:_DATASETS_TOLD]]
    more = [counted(len(names) - len(told), "more dataset")] if len(names) > len(told) else []
    return listed([*told, *more]) if told else "data that is not named"


def _ended(record: Record) -> Part:
    """How, at which step, and what went wrong on the way."""
    run = record.run
    last = known(run.summary, "last_step")
    at = f"; the last step that is known is {last:,}" if last is not None else ""
    anomalies = [anomaly_named(anomaly) for anomaly in run.anomalies]
    wrong = f"; what went wrong: {listed(anomalies)}" if anomalies else ""
    text, *behind = ended(record)
    seen = [pos for anomaly in run.anomalies for pos in anomaly.positions]
    return record.derived(f"{text}{at}{wrong}", *behind, *seen, *(record.series.ends if at else ()))


def _chosen(record: Record) -> Part:
    """The last choice, with its rule and among which steps it is the best."""
    if not record.run.selections:
        return record.derived("No choice of a checkpoint is recorded")
    chosen = max(record.run.selections, key=lambda each: each.pos)
    numbers = recorded_numbers(chosen)
    by = f"The checkpoint of step {chosen.step:,} was chosen by the rule {code(chosen.rule.id)}"
    named = f" ({numbers})" if numbers else ""
    gone = [checkpoint for checkpoint in checkpoints_of(record, chosen) if checkpoint.status != "committed"]
    now = f", and is {listed(words(checkpoint.status) for checkpoint in gone)} now" if gone else ""
    best = best_of(chosen)
    saves = [pos for checkpoint in gone for pos in place(checkpoint, "replaced_pos", "deleted_pos")]
    text = f"{by}{named}{now}{f'. {best}' if best else ''}"
    return derived(text, *behind_best(record, chosen), *saves)


def _data(record: Record) -> Parts:
    """The Quality of the sources when the run was declared and now, and what is open against them."""
    standing = record.dossier.sources
    if not standing:
        return
    begun = [then.at_start if then.HasField("at_start") else None for then in standing]
    now = [then.now if then.HasField("now") else None for then in standing]
    defects = [defect for source in now if source is not None for defect in source.open_defects]
    of = "its source" if len(standing) == 1 else f"its {len(standing):,} sources"
    behind = [pos for source in [*begun, *now] if source is not None for pos in quality_events(source)]
    yield shown(
        f"The Quality of {of} when the run was declared: {_qualities(begun)}; now: {_qualities(now)}, with "
        f"{counted(len(defects), 'open defect') if defects else 'no open defect'}",
        *[*behind, *(defect.pos for defect in defects)] or [record.declared],
    )


def _qualities(sources: Iterable[audit_pb2.Source | None]) -> str:
    """One source by its word, several by how many have which."""
    found = Counter("not known" if source is None else quality(source) for source in sources)
    if found.total() == 1:
        return next(iter(found))
    return listed(f"{count:,} {name}" for name, count in sorted(found.items()))


def _told_of_results(record: Record) -> Part:
    """What was published and verified; which results are claimed, or that none are."""
    results = [claim for claim in benchmarks(record) if not claim.claim.absent]
    absent = [claim for claim in benchmarks(record) if claim.claim.absent]
    verified = [export.verified_pos for export in record.exports if export.HasField("verified_pos")]
    models = [model for export in record.exports for model in export.models]
    parts = [f"It was published as {listed(code(model.repository) for model in models)}"] if models else []
    parts += [_verified(len(verified), len(record.exports))] if record.exports else ["no export of it is recorded"]
    parts.append(
        f"{counted(len(results), 'benchmark result')} of it {'is' if len(results) == 1 else 'are'} claimed"
        if results
        else "no benchmark result of it is recorded" + (", and that none is claimed is itself said" if absent else "")
    )
    text = "; ".join(parts)
    behind = [*(model.pos for model in models), *verified, *(claim.pos for claim in [*results, *absent])]
    return record.derived(text[0].upper() + text[1:], *behind)


def _verified(verified: int, exports: int) -> str:
    if exports == 1:
        return "the verification of its export is recorded" if verified else "no verification of its export is recorded"
    return f"a verification is recorded of {verified:,} of its {exports:,} exports"
