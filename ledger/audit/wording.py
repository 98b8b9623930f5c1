"""What an event says, in one sentence: for timelines and explanations.

What was recorded is data from anywhere: it is made harmless and cut short before it stands in a sentence. A payload
that is gone, or says less than a sentence needs, leaves a sentence that says less.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from ledger.core.errors import InvalidInput
from ledger.core.text import harmless

MAX_QUOTED: Final = 120
"""Characters of a recorded text that a sentence quotes."""
MAX_SENTENCE: Final = 600
Fields = Mapping[str, Any]


def sentence(type_: str, fields: Fields | None) -> str:
    """What happened."""
    if fields is None:
        return f"{type_}: its payload is gone."
    say = _SENTENCES.get(type_)
    try:
        return f"{type_} was recorded." if say is None else _cut(harmless(say(fields)), MAX_SENTENCE)
    except (KeyError, TypeError, ValueError, AttributeError):  # a redaction may have taken what it is about
        return f"{type_} was recorded; parts of it are gone."


def quoted(value: object) -> str:
    """A recorded text as a sentence may hold it."""
    return _cut(harmless(str(value)), MAX_QUOTED)


def check_values(filter_: object, known: Mapping[str, Sequence[str]]) -> None:
    """Refuses values that a filter's field can never have; `known` has them by the field's name.

    Raises:
        InvalidInput: it names one of them, and those that there are.
    """
    for name, values in known.items():
        if unknown := sorted(getattr(filter_, name) - set(values)):
            raise InvalidInput(
                f"filter.{name}: {quoted(unknown[0])!r} is none of its values",
                remedy=f"They are {', '.join(values)}.",
            )


def _cut(text: str, limit: int) -> str:
    return text if len(text) <= limit else text[: limit - 1] + "…"


def short(digest: object) -> str:
    """The first characters of a digest."""
    return quoted(digest)[:12]


def revision(value: object) -> str:
    """A revision, the digests among them by their first characters."""
    return f"{short(value)}…" if len(str(value)) in {40, 64} else quoted(value)


def count(number: int, noun: str) -> str:
    """ "1 model", "2 models" """
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def _row(verb: str) -> Callable[[Fields], str]:
    def say(p: Fields) -> str:
        row = p["row"]
        pinned = [
            f"{name} {revision(row[field])}"
            for name, field in (("data", "dataset_revision"), ("verifier", "verifier_revision"))
            if row.get(field)
        ]
        return f"{verb}, at {' and '.join(pinned)}." if pinned else f"{verb}; its revisions are not known."

    return say


def _synced(p: Fields) -> str:
    c = p["counts"]
    partial = " of some sources" if p.get("partial") else ""
    return (
        f"Refreshed the catalogue of {quoted(p['origin'])}{partial}: {c['declared']} declared, {c['revised']} revised, "
        f"{c['retired']} retired, {c['reinstated']} reinstated, {c['unchanged']} unchanged."
    )


def _alias(p: Fields) -> str:
    sources = ", ".join(quoted(s) for s in p["source_ids"][:3]) or "no source"
    more = f" and {len(p['source_ids']) - 3} more" if len(p["source_ids"]) > 3 else ""
    return (
        f"Mapped the name {quoted(p['alias'])} to {sources}{more}: {p['status']}, applicability {p['applicability']}."
    )


def _subject(p: Fields) -> str:
    subject = p["subject"]
    return f"the task {quoted(subject['task_id'])}" if subject["level"] == "task" else "the source"


def _observation(p: Fields) -> str:
    if p["method"] != "runtime_execution":
        what = "An inspection" if p["method"] == "static_inspection" else "An audit"
        return f"{what} of {_subject(p)} by {quoted(p['reviewer']['id'])}: {p['verdict']}."
    verification = p.get("verification") or p["attributes"].get("verification") or {}
    return f"Ran the native verifier on {_subject(p)}: {quoted(verification.get('status', 'no verdict'))}."


def _opinion(who: str) -> Callable[[Fields], str]:
    def say(p: Fields) -> str:
        issues = [f for f in p["findings"] if f["kind"] == "issue"]
        found = f", with {count(len(issues), 'issue')}" if issues else ""
        return f"{who} {quoted(p['reviewer']['id'])} on {_subject(p)}: {p['verdict']}{found}."

    return say


def _published(p: Fields) -> str:
    role = f" ({p['review_pool_role']})" if p.get("review_pool_role") else ""
    data = f" on data {revision(p['dataset_revision'])}" if p["dataset_revision"] else " on unknown data"
    return f"Published the review {short(p['review'])}{role} of {count(p['parts']['count'], 'part')}{data}."


def _superseded(p: Fields) -> str:
    by = f" by {short(p['superseded_by'])}" if p["superseded_by"] else ""
    return f"Superseded the review {short(p['review'])}{by}: {quoted(p['reason'])}"


def _tag(p: Fields) -> str:
    return f"Tagged {p['target']['kind']} {quoted(p['target']['id'])}: {p['namespace']}:{quoted(p['value'])}."


def _confirmed(p: Fields) -> str:
    issue = quoted(p["issue_url"]) if p["issue_url"] else "no issue filed"
    return f"Confirmed the {p['kind']} defect {p['defect']}: {quoted(p['summary'])} ({issue})"


def _validation(p: Fields) -> str:
    passed = sum(r["passed"] for r in p["replays"])
    controls = sum(c["passed"] for c in p["controls"])
    return (
        f"Checked a fix of the defect {p['defect']}: {passed} of {count(len(p['replays']), 'replay')} and "
        f"{controls} of {count(len(p['controls']), 'control')} passed."
    )


def _with_reason(verb: str, what: str) -> Callable[[Fields], str]:
    return lambda p: f"{verb} {p[what]}: {quoted(p['reason'])}"


def _outcome(m: Fields) -> str:
    return f"{quoted(m['size'])} {m['solved']}/{m['verified']}"


def _reported(p: Fields) -> str:
    outcomes = ", ".join(_outcome(m) for m in p["models"][:4])
    return f"Measured difficulty under {quoted(p['protocol']['id'])}: {outcomes or 'no model'}."


def _followup(p: Fields) -> str:
    changed = p["changed_parameter"] or p["checkpoint_change"] or p["kind"]
    return f"Follow-up {quoted(p['followup_id'])} ({p['state']}, {quoted(changed)}): {_outcome(p['outcome'])}."


def _attestation(p: Fields) -> str:
    kind = p["kind"].replace("_", " ")
    return f"Attested {kind}: {quoted(p['subject'])}. Scope: {quoted(p['scope'])}"


def _protocol_adopted(p: Fields) -> str:
    instead = f" in the place of {quoted(p['replaces'])}" if p["replaces"] else ""
    return f"Adopted the protocol {quoted(p['protocol'])}{instead}."


def _promoted(p: Fields) -> str:
    moved = count(p["moved"], "source")
    return f"Promoted the rules {quoted(p['rules'])} for {quoted(p['projection'])}; {moved} moved."


_SENTENCES: Final[Mapping[str, Callable[[Fields], str]]] = {
    "source.declared": _row("Declared in the catalogue"),
    "source.revised": _row("Revised in the catalogue"),
    "source.reinstated": _row("Listed again"),
    "source.retired": lambda p: f"Retired: {quoted(p['reason'])}",
    "catalogue.synced": _synced,
    "catalogue.sync_failed": lambda p: f"A refresh of {quoted(p['origin'])} failed: {quoted(p['error'])}",
    "alias.mapped": _alias,
    "observation.recorded": _observation,
    "judgment.recorded": _opinion("Judgment by"),
    "synthesis.recorded": _opinion("Synthesis by"),
    "review.published": _published,
    "review.superseded": _superseded,
    "tag.assigned": _tag,
    "tag.retracted": lambda p: f"Took back the tag {quoted(p['assignment_id'])}.",
    "defect.suspected": lambda p: f"Suspected the {p['kind']} defect {p['defect']}: {quoted(p['summary'])}",
    "defect.confirmed": _confirmed,
    "defect.validation_recorded": _validation,
    "defect.resolved": lambda p: f"Resolved the defect {p['defect']}, with the review {short(p['review'])}.",
    "defect.reopened": _with_reason("Reopened the defect", "defect"),
    "defect.withdrawn": _with_reason("Withdrew the defect", "defect"),
    "difficulty.reported": _reported,
    "difficulty.followup_reported": _followup,
    "difficulty.context_recorded": lambda _p: "Recorded the solver's initial counts and earlier evidence.",
    "attestation.recorded": _attestation,
    "rules.adopted": lambda p: f"Permitted the rules {quoted(p['rules'])}.",
    "protocol.defined": lambda p: (
        f"Defined the protocol {quoted(p['protocol'])}, with {count(len(p['models']), 'model')}."
    ),
    "protocol.adopted": _protocol_adopted,
    "projection.promoted": _promoted,
    "event.disregarded": _with_reason("Disregarded the event at position", "pos"),
    "event.redacted": _with_reason("Redacted the event at position", "pos"),
}
