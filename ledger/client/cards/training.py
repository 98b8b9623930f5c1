"""What a card says of training: the objective as far as it was in effect, and how the run went and ended."""

from __future__ import annotations

from typing import Final

from google.protobuf.message import Message

from ledger.client.cards.record import Record
from ledger.client.cards.text import (
    Missing,
    Part,
    Parts,
    Said,
    code,
    counted,
    derived,
    known,
    listed,
    number,
    prose,
    said,
    words,
)
from ledger.wire import runs_pb2

_CLIP: Final = {
    "inert": "The clip of the policy's ratio is inert: one update a batch, on the batch's own log-probabilities",
    "in_effect": "The clip of the policy's ratio is in effect",
}
_KL: Final = {
    "measured": "The divergence from the reference policy (KL) is measured",
    "not_measured": "The divergence from the reference policy (KL) is not measured, which is not a KL of 0",
}
_ANOMALY: Final = {
    "entropy_runaway": "An entropy runaway",
    "entropy_collapse": "An entropy collapse",
    "reward_collapse": "A reward collapse",
    "non_finite": "Metrics that are not finite",
    "other": "An anomaly",
}
_ENDED: Final = {
    "completed": "The run completed",
    "failed": "The run failed",
    "cancelled": "The run was cancelled",
    "preempted": "The run was preempted",
    "unknown": "The run ended, and how is not known",
}


def objective(record: Record) -> Parts:
    run = record.run
    identity = run.objective.identity
    behind = (record.declared, *record.configs)
    yield from _settings(record)
    if not identity:
        yield Missing("the objective")
    clip, kl = run.objective.clip, run.objective.kl
    yield derived(_CLIP[clip], *behind) if clip in _CLIP else Missing("whether the clip was in effect")
    yield derived(_KL[kl], *behind) if kl in _KL else Missing("whether KL was measured")
    yield from _importance(record)
    for note in run.objective.notes:
        yield derived(f"Of the objective: {prose(note)}", *behind)
    for config in run.configs:
        drifted = ", which is not the configuration before" if config.drifted else ""
        yield said(
            f"The configuration of attempt {config.attempt} at its {words(config.moment)} has the digest "
            f"{code(config.digest)}{drifted}",
            config.pos,
        )
    if not run.configs:
        yield Missing("a digest of the configuration")
    for drift in run.drifts:
        yield said(f"In attempt {drift.attempt} the configuration drifted: {_changes(drift)}", drift.pos)


def _settings(record: Record) -> Parts:
    """The objective's parts, first as declared, then as the configuration has them; then what else was declared."""
    identity = record.run.objective.identity
    for origin, cites in (("declared", (record.declared,)), ("config", record.configs)):
        parts = [f"{code(s.name)} {code(s.value)}" for s in identity if s.origin == origin]
        if parts:
            where = "declared" if origin == "declared" else "in the recorded configuration"
            yield said(f"The objective, as {where}: {listed(parts)}", *cites or (record.declared,))
    named = {setting.name for setting in identity}
    others = [p for p in _plain(record.run.declared.algorithm) if p[0] not in named]
    if others:
        yield said(
            f"Further settings, as declared: {listed(f'{code(name)} {code(value)}' for name, value in others)}",
            record.declared,
        )


def _plain(message: Message) -> list[tuple[str, str]]:
    """The fields that hold one value, by name."""
    values = ((field, value) for field, value in message.ListFields() if field.message_type is None)
    return [(field.name, _value(value)) for field, value in values]


def _value(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return number(value) if isinstance(value, float) else str(value)


def _importance(record: Record) -> Parts:
    """Truncated importance sampling is a switch; what counts is on how many steps it was applied."""
    found = record.run.objective
    if found.HasField("tis_steps") and found.HasField("tis_applied_steps"):
        skipped = known(found, "tis_skipped_fraction")
        share = f"; on average a fraction of {number(skipped)} was skipped" if skipped is not None else ""
        yield record.derived(
            f"Truncated importance sampling was applied on {found.tis_applied_steps:,} of {found.tis_steps:,} steps"
            f"{share}",
            *record.series.ends,
        )
    elif any(s.name == "use_tis" and s.value.lower() == "true" for s in found.identity):
        yield Missing("on how many steps truncated importance sampling was applied")


def _changes(drift: runs_pb2.DriftState) -> str:
    told = [f"{code(c.path)} from {_side(c, 'before')} to {_side(c, 'after')}" for c in drift.changes[:10]]
    left_out = len(drift.changes) - len(told)
    more = [f"{left_out:,} more"] if left_out else []
    return listed([*told, *more]) if told else "in what is not recorded"


def _side(change: Message, name: str) -> str:
    return code(getattr(change, name)) if change.HasField(name) else "absent"


def outcome(record: Record) -> Parts:
    yield _end(record)
    yield from _steps(record)
    yield from _attempts(record)
    yield from _reward(record)
    for anomaly in record.run.anomalies:
        yield _anomaly(anomaly, record)


def _end(record: Record) -> Part:
    text, *behind = ended(record)
    return said(text, *behind) if behind else record.derived(text)


def ended(record: Record) -> tuple[str, *tuple[int, ...]]:
    """How the run ended, and the event that says so; none where no end is recorded."""
    run = record.run
    status = run.summary.status
    if status == "open":
        return ("No end of the run is recorded, and nothing more is known of that",)
    reason = known(run.summary, "reason")
    because = f", for the reason {prose(reason)}" if reason is not None else ""
    text = _ENDED.get(status, f"The run ended as {words(status)}") + because
    ends = [a.ended_pos for a in run.attempts if a.HasField("ended_pos")]
    return text, run.ended_pos if run.HasField("ended_pos") else max(ends, default=run.summary.last_pos)


def _steps(record: Record) -> Parts:
    summary = record.run.summary
    ended = record.run.ended_pos if record.run.HasField("ended_pos") else None
    behind = (*record.series.ends, ended)
    if (last := known(summary, "last_step")) is not None:
        planned = known(summary, "planned_steps")
        of = f" of {planned:,} planned" if planned is not None else ""
        yield derived(f"The last step that is known is step {last:,}{of}", *behind, record.declared)
    else:
        yield Missing("how many steps were trained")
    if known(summary, "planned_steps") is None:
        yield Missing("how many steps were planned")
    if (durable := known(summary, "last_durable_step")) is not None:
        saves = [c.committed_pos for c in record.run.checkpoints if c.step == durable and c.HasField("committed_pos")]
        yield record.derived(f"The last checkpoint that stands is that of step {durable:,}", *saves)


def _attempts(record: Record) -> Parts:
    for attempt in record.run.attempts:
        ended = "has no recorded end" if attempt.status == "open" else f"ended as {words(attempt.status)}"
        parts = [f"Attempt {attempt.attempt} {ended}"]
        if (step := known(attempt, "resumed_from_step")) is not None:
            parts.append(f"resumed from step {step:,}")
        if attempt.HasField("first_step") and attempt.HasField("last_step"):
            parts.append(
                f"logged {counted(attempt.steps, 'step')} from {attempt.first_step:,} to {attempt.last_step:,}"
            )
        if attempt.abandoned_steps:
            parts.append(f"{counted(attempt.abandoned_steps, 'step')} of which a later attempt made again")
        if (error := known(attempt, "error_type")) is not None:
            parts.append(f"error {code(error)}")
        if (reason := known(attempt, "reason")) is not None:
            parts.append(f"reason {prose(reason)}")
        ends = [getattr(attempt, n) for n in ("started_pos", "ended_pos") if attempt.HasField(n)]
        yield record.derived(", ".join(parts), *ends or record.series.ends)


def _reward(record: Record) -> Parts:
    reward = record.run.reward
    if not reward.steps:
        yield Missing("a series of steps: no metric of any step was logged")
        return
    parts = [f"The metric {code(reward.metric)} was logged for {counted(reward.steps, 'step')}"]
    parts += [f"{name} {number(getattr(reward, name))}" for name in ("first", "last") if reward.HasField(name)]
    if reward.HasField("max"):
        at = f" at step {reward.max_step:,}" if reward.HasField("max_step") else ""
        parts.append(f"highest {number(reward.max)}{at}")
    if reward.HasField("last_ema"):
        parts.append(f"trailing EMA (alpha {number(reward.alpha)}) at the last step {number(reward.last_ema)}")
    parts.append(f"{counted(reward.not_finite, 'value')} of all metrics not finite")
    highest = record.series.at(reward.max_step) if reward.HasField("max_step") else None
    yield record.derived(", ".join(parts), *record.series.ends, highest)
    if reward.HasField("entropy_first") and reward.HasField("entropy_last"):
        yield record.derived(
            f"Policy entropy was {number(reward.entropy_first)} at first and {number(reward.entropy_last)} at last",
            *record.series.ends,
        )


def anomaly_named(anomaly: runs_pb2.Anomaly) -> str:
    """An anomaly within a sentence: what, from when on, and whether it is only claimed."""
    name = _ANOMALY.get(anomaly.kind, words(anomaly.kind) or "an anomaly")
    onset = known(anomaly, "onset_step")
    since = f" from step {onset:,} on" if onset is not None else ""
    return f"{name[0].lower()}{name[1:]}{since}{', which is claimed' if anomaly.origin == 'claimed' else ''}"


def _anomaly(anomaly: runs_pb2.Anomaly, record: Record) -> Said:
    parts = [_ANOMALY.get(anomaly.kind, words(anomaly.kind).capitalize())]
    parts.append("claimed" if anomaly.origin == "claimed" else "derived")
    if (rule := known(anomaly, "rule")) is not None:
        parts[-1] += f" by the rule {code(rule)}"
    if (onset := known(anomaly, "onset_step")) is not None:
        parts.append(f"onset at step {onset:,}")
    if (seen := known(anomaly, "seen_at_step")) is not None:
        parts.append(f"seen at step {seen:,}")
    if anomaly.numbers:
        parts.append(f"with {listed(f'{code(n.name)} {number(n.value)}' for n in anomaly.numbers)}")
    if (statement := known(anomaly, "statement")) is not None:
        parts.append(f"in these words: {prose(statement)}")
    make = said if anomaly.origin == "claimed" and anomaly.positions else record.derived
    return make(", ".join(parts), *anomaly.positions)
