"""One run, whole, as `ledger run show` prints it: how it ended and which checkpoint was chosen first, then the rest.

A section is a heading with pairs or tables below it; one of which nothing is known is left out. What a reader would
look for and nobody recorded is said to be unknown, never shown as nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from rich.text import Text

from ledger.client.cards.text import number
from ledger.wire import runs_pb2
from services.cli import run_words, words
from services.cli.output import Output
from services.cli.run_checkpoints import show_checkpoints
from services.cli.run_exports import exports, published
from services.cli.run_setup import data, infrastructure, models, objective
from services.cli.source_facts import Pairs

Dossier = runs_pb2.RunAsOfResponse


def show_run(out: Output, found: Dossier) -> None:
    """Everything that is known and derived of one run."""
    out.pairs(_glance(found))
    for title, pairs in _SETUP:
        _section(out, title, pairs(found))
    _attempts(out, found.run)
    _section(out, "How it went", _outcome(found.run))
    show_checkpoints(out, found.run)
    for title, pairs in _AFTERWARDS:
        _section(out, title, pairs(found))


def heading(out: Output, title: str) -> None:
    out.line()
    out.line(Text(title, style="bold"))


def _section(out: Output, title: str, pairs: Pairs) -> None:
    listed = [(f"  {name}", value) for name, value in pairs]
    if listed:
        heading(out, title)
        out.pairs(listed)


def _glance(found: Dossier) -> Pairs:
    """What a curator looks for first."""
    run, summary = found.run, found.run.summary
    yield "run", summary.id + (" (sample)" if summary.sample else "")
    if summary.HasField("campaign_id"):
        arm = f", arm {summary.arm}" if summary.HasField("arm") else ""
        yield "campaign", f"{summary.campaign_id}{arm}"
    yield "ended", run_words.ended(summary)
    yield from _choice(run)
    for anomaly in run.anomalies:
        yield "anomaly", run_words.anomaly(anomaly)
    verdict = run.completeness.verdict
    exceptions = "; ".join(run.completeness.exceptions)
    yield "record", f"{run_words.COMPLETENESS.get(verdict, verdict)} {exceptions}".rstrip()
    flags = len(run.flags) + sum(len(export.flags) for export in found.exports)
    yield "flags", f"{flags}, told below" if flags else "none"
    by = f"{summary.basis}{_claimed_at(run)}" if run.HasField("declared") else "its events; nobody declared it"
    yield "known by", by


def _choice(run: runs_pb2.Run) -> Pairs:
    """The checkpoint that was chosen last, and why."""
    if not run.selections:
        yield "checkpoint", "none was chosen"
        return
    chosen = run.selections[-1]
    yield "checkpoint", f"step {chosen.step:,}, for {chosen.purpose}, by {run_words.rule(chosen.rule)}"
    told = ", ".join(run_words.figures(chosen, "recorded")) or "neither EMA nor reward is named"
    yield "why", f"{told}; {run_words.best(chosen)}"
    if chosen.HasField("wording"):
        yield "called", f"“{chosen.wording}”, which is a claim"


def _claimed_at(run: runs_pb2.Run) -> str:
    basis = run.declared.basis
    return f" at {basis.url}" if basis.HasField("url") else ""


def _purpose(found: Dossier) -> Pairs:
    campaign = found.campaign.declared
    if run_words.known(found.run.declared, "purpose"):
        yield "of the run", found.run.declared.purpose
    if found.campaign.HasField("declared") and run_words.known(campaign, "purpose"):
        yield "of the campaign", campaign.purpose


def _attempts(out: Output, run: runs_pb2.Run) -> None:
    if not run.attempts:
        return
    heading(out, "Attempts")
    out.table(
        ["  attempt", "ended", "resumed from", "steps", "abandoned", "why"],
        [_attempt(attempt, _ending(run, attempt)) for attempt in run.attempts],
        whole=("  attempt",),
        spare=("abandoned",),
    )


def _ending(run: runs_pb2.Run, attempt: runs_pb2.AttemptState) -> Text:
    """Of an attempt that nobody ended only the last one of an open run can still be running."""
    if attempt.status != "open" or (run.summary.status == "open" and attempt.attempt == run.attempts[-1].attempt):
        return run_words.status(attempt.status)
    return Text("no end recorded")


def _attempt(attempt: runs_pb2.AttemptState, ending: Text) -> list[Text | str | int]:
    steps = "none"
    if attempt.HasField("first_step") and attempt.HasField("last_step"):
        steps = f"{attempt.first_step:,} to {attempt.last_step:,}"
    why = ": ".join(getattr(attempt, name) for name in ("error_type", "reason") if attempt.HasField(name))
    return [
        f"  {attempt.attempt}",
        ending,
        _resumed(attempt),
        steps,
        attempt.abandoned_steps,
        why or "-",
    ]


def _resumed(attempt: runs_pb2.AttemptState) -> str:
    if not attempt.HasField("resumed_from_step"):
        return "the start"
    of = f" of attempt {attempt.resumed_from_attempt}" if attempt.HasField("resumed_from_attempt") else ""
    return f"step {attempt.resumed_from_step:,}{of}"


def _outcome(run: runs_pb2.Run) -> Pairs:
    reward = run.reward
    if not reward.steps:
        yield "series", "none: no metric of any step was recorded"
    else:
        yield reward.metric, _reward(reward)
        if reward.HasField("entropy_first") and reward.HasField("entropy_last"):
            yield "policy entropy", f"{number(reward.entropy_first)} at first, {number(reward.entropy_last)} at last"
    yield "last durable step", run_words.value(run.summary, "last_durable_step")
    for drift in run.drifts:
        changed = ", ".join(f"{c.path}: {_side(c, 'before')} → {_side(c, 'after')}" for c in drift.changes)
        yield "config drifted", f"in attempt {drift.attempt}: {changed or 'in what is not recorded'}"
    if run.weight_syncs.count:
        syncs = run.weight_syncs
        yield "weight syncs", f"{syncs.count:,}, {syncs.probed:,} probed, {syncs.failed:,} of them beyond tolerance"
    for state in run.evaluations:
        metrics = state.evaluation.metrics
        told = ", ".join(f"{key} {number(metrics[key])}" for key in sorted(metrics))
        yield f"evaluation, step {state.step:,}", f"{state.evaluation.data_source}: {told}; no benchmark result"


def _reward(reward: runs_pb2.RewardSummary) -> str:
    parts = [words.counted(reward.steps, "step")]
    parts += [f"{name} {number(getattr(reward, name))}" for name in ("first", "last") if reward.HasField(name)]
    if reward.HasField("max"):
        at = f" at step {reward.max_step:,}" if reward.HasField("max_step") else ""
        parts.append(f"highest {number(reward.max)}{at}")
    if reward.HasField("last_ema"):
        parts.append(f"EMA at last {run_words.average(reward.last_ema)}")
    # Not of the reward alone: whatever was logged on the way is counted.
    return ", ".join([*parts, f"{words.counted(reward.not_finite, 'value')} of all metrics not finite"])


def _side(change: object, name: str) -> str:
    found = run_words.known(change, name)
    return "absent" if found is None else str(found)


def _rollouts(found: Dossier) -> Pairs:
    """What is counted; a count that nobody made is not shown as 0."""
    coverage = found.run.coverage
    names = ("started", "finished", "verified", "consumed", "trained", "published", "masked")
    if not coverage.positions:
        return
    yield "trials", ", ".join(f"{run_words.value(coverage, name) or 'unknown'} {name}" for name in names)
    for error in coverage.errors:
        treated = f", treated as {error.treatment}" if error.HasField("treatment") else ""
        yield "error", f"{error.exception_type}: {error.count:,}{treated}"
    for groups in coverage.groups:
        because = f", {groups.reason}" if groups.HasField("reason") else ""
        yield "groups", f"{groups.groups:,} {groups.disposition}{because}"
    for limit in coverage.limits:
        yield "not covered", limit


def _claims(found: Dossier) -> Pairs:
    for claim in _all_claims(found):
        said = claim.claim
        if said.absent:
            yield said.topic, f"nothing is claimed: {said.statement}"
            continue
        figure = f" [{number(said.number)}{' ' + said.unit if said.unit else ''}]" if said.HasField("number") else ""
        against = f": {claim.against}" if claim.HasField("against") else ""
        yield said.topic, f"{said.statement}{figure} ({run_words.spaced(claim.standing)}{against})"


def _all_claims(found: Dossier) -> Iterator[runs_pb2.Claim]:
    yield from found.run.claims
    for export in found.exports:
        yield from export.claims
    yield from found.campaign.claims


def _flags(found: Dossier) -> Pairs:
    of_exports = (flag for export in found.exports for flag in export.flags)
    for flag in (*found.run.flags, *of_exports, *found.campaign.flags):
        yield flag.code, f"{flag.message} ({run_words.events(flag.positions)})"


def _producers(found: Dossier) -> Pairs:
    for one in found.run.completeness.producers:
        closed = "closed" if one.closed else "not closed"
        told = f"{one.seen:,} events of {one.highest_seq:,}, {one.dropped:,} dropped, {one.refused:,} refused"
        yield one.producer, f"epoch {one.epoch}: {told}, {closed}"


def _anomalies(found: Dossier) -> Pairs:
    """The numbers that show each of them; what is said of them stands at the top."""
    for anomaly in found.run.anomalies:
        if anomaly.numbers:
            yield run_words.spaced(anomaly.kind), run_words.numbers(anomaly.numbers)


_Sections = tuple[tuple[str, Callable[[Dossier], Pairs]], ...]
_SETUP: Final[_Sections] = (
    ("Purpose", _purpose),
    ("Data", data),
    ("Models", models),
    ("Objective", objective),
    ("Infrastructure", infrastructure),
)
_AFTERWARDS: Final[_Sections] = (
    ("Anomalies, by the numbers", _anomalies),
    ("Rollouts", _rollouts),
    ("Exports", exports),
    ("Traces and logs", published),
    ("Claims", _claims),
    ("Flags", _flags),
    ("Recorders", _producers),
)
