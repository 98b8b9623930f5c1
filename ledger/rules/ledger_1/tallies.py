"""What the parts of a review collection add up to, taken once, when the collection is published.

Verdicts are tallied by task: each task has its own judges, and one task's majority is not another's.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

from ledger.core.clock import from_text
from ledger.rules.ledger_1.gathering import QUALIFYING, SEVERE
from ledger.rules.ledger_1.review_model import MAX_CITED, Counted, NativeRun, Panel, Part, SourceSubject, Tag, Tally

PANEL: Final = 3
"""Model judgments that a natively run task needs before a rating may be Good."""
SUPPLEMENTAL_JUDGE: Final = "model:Qwen/Qwen3-Coder-30B-A3B-Instruct"
"""A collection judged by this model supplements others and gives no rating."""
_JUDGED: Final = frozenset({"model_judgment", "human_judgment"})
_NONE: Final = Counted()


def tally(parts: Iterable[Part], tags: Iterable[Tag] = ()) -> Tally:
    """The sum of a collection's parts, in log order."""
    parts = tuple(parts)
    methods: dict[str, list[Part]] = {}
    for part in parts:
        methods.setdefault(part.method, []).append(part)
    runs, judges = methods.get("runtime_execution", []), methods.get("model_judgment", [])
    syntheses = methods.get("synthesis", [])
    judged = [p for p in parts if p.method in _JUDGED] if "human_judgment" in methods else judges
    of_source = [p for p in syntheses if p.source is not None]
    by_task = _by_task(judges)
    # Most parts found nothing; only those that did are looked at again.
    opinions = [p for p in parts if p.impact >= QUALIFYING and (p.method == "model_judgment" or _of_source(p))]
    return Tally(
        subjects=tuple(
            dict.fromkeys(SourceSubject(p.subject, p.source, p.dataset_revision) for p in parts if p.source)
        ),
        syntheses=len(of_source),
        synthesis_pos=of_source[-1].pos if of_source else None,
        synthesis_verdict=of_source[-1].verdict if of_source else None,
        judges=_counted(judges),
        rejects=_counted([p for p in judges if p.verdict == "reject"]),
        supplemental_judges=_counted([p for p in judges if p.by == SUPPLEMENTAL_JUDGE]),
        issues=_counted(opinions),
        severe=_counted([p for p in opinions if p.impact >= SEVERE]),
        traces=_counted(runs),
        unverified=_counted([p for p in runs if p.status != "verified"]),
        thin=_counted([p for p in runs if not p.source and len(by_task.get(p.subject, ())) < PANEL]),
        judgments=len(judged),
        **_latest(judged),
        runs=_native_runs(runs),
        contracts=_contracts(runs),
        claims=tuple([claim for p in parts if p.claims for claim in p.claims]),
        panel=_panel(judges, by_task, {p.subject: p.verdict for p in syntheses if p.source is None}),
        sample=True in [p.sample for p in parts] or any(tag.sample for tag in tags),
    )


def _of_source(part: Part) -> bool:
    return part.method == "synthesis" and part.source is not None


def _counted(parts: Sequence[Part]) -> Counted:
    return Counted(len(parts), tuple([p.pos for p in parts[:MAX_CITED]])) if parts else _NONE


def _by_task(judges: Iterable[Part]) -> dict[str, list[str]]:
    """The verdicts of each task's model judges."""
    verdicts: dict[str, list[str]] = {}
    for judge in judges:
        if judge.source is None:
            verdicts.setdefault(judge.subject, []).append(judge.verdict)
    return verdicts


def _panel(judges: Sequence[Part], by_task: dict[str, list[str]], syntheses: dict[str, str]) -> Panel:
    sizes = [len(verdicts) for verdicts in by_task.values()]
    rejected = in_conflict = overruled = 0
    for task, verdicts in by_task.items():
        rejected += 2 * verdicts.count("reject") > len(verdicts)
        in_conflict += verdicts.count(verdicts[0]) < len(verdicts)
        if task in syntheses:
            overruled += len(verdicts) - verdicts.count(syntheses[task])
    return Panel(
        tasks=len(by_task),
        fewest=min(sizes, default=0),
        most=max(sizes, default=0),
        models=len({p.by for p in judges}),
        conversations=len({p.conversation for p in judges} - {None}),
        prompts=len({p.prompt for p in judges} - {None}),
        rejected=rejected,
        in_conflict=in_conflict,
        overruled=overruled,
    )


def _native_runs(runs: Iterable[Part]) -> tuple[NativeRun, ...]:
    """The verified ones that executed the tests; one a revision is enough to tell what was run there."""
    first: dict[str | None, NativeRun] = {}
    for run in runs:
        if run.status == "verified" and run.executed and run.dataset_revision not in first:
            first[run.dataset_revision] = NativeRun(run.pos, run.dataset_revision)
    return tuple(first.values())


def _contracts(runs: Iterable[Part]) -> tuple[str | None, ...]:
    found = {run.contract for run in runs if run.status == "verified"}
    return tuple(sorted(found, key=lambda name: (name is None, name or "")))


def _latest(judged: Iterable[Part]) -> dict[str, Any]:
    """The latest judgment that says when it was made; of equal moments the first."""
    first: dict[str, Part] = {}
    for part in judged:
        if part.at is not None and part.at not in first:
            first[part.at] = part
    latest: dict[str, Part] = {}
    for at, part in first.items():
        # Times written alike are in the order of their text: only one of each form need be read as a time.
        form = f"{len(at)}{at[10:11]}" if at.endswith("Z") else at
        if form not in latest or at > (latest[form].at or ""):
            latest[form] = part
    moments = [(from_text(part.at or ""), -part.pos, part) for part in latest.values()]
    if not moments:
        return {}
    # No two parts have one position, so that parts themselves are never compared.
    moment, _, part = max(moments)
    return {"judged_pos": part.pos, "judged_at": part.at, "judged_at_us": moment}
