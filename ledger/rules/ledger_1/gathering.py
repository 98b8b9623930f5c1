"""What is kept of one part of a review collection.

A part is gathered when it is recorded, and counts when its collection is published. What it says in words is not kept:
only positions, verdicts and identities that a rule asks for. This runs once for every part of every review, so it
builds nothing that it can spare.
"""

from __future__ import annotations

from hashlib import sha256
from typing import Any, Final

from ledger.rules import RuleEvent
from ledger.rules.ledger_1.reading import Finding, ReviewPart, TagAssigned
from ledger.rules.ledger_1.review_model import Claim, Part, Tag

SEVERE: Final = 2
QUALIFYING: Final = 1
_IMPACT: Final = {"critical": SEVERE, "high": SEVERE, "medium": QUALIFYING}


def part_of(event: RuleEvent, said: ReviewPart) -> Part:
    """One review, as the rules count it."""
    subject, session, attributes, verification = said.subject, said.session, said.attributes, said.verification
    conversation, prompt = (None, None) if session is None else (session.conversation_id, session.prompt_sha256)
    if conversation is None and attributes.conversation_id is not None:
        conversation = text(attributes.conversation_id)
    if prompt is None and attributes.prompt is not None:
        prompt = _digest(attributes.prompt)
    issues, attribute = attributes.resolved_verifier_issues, attributes.verification
    return Part(
        event.pos,
        event.id,
        said.method,
        subject.id,
        said.verdict,
        said.reviewer.id,
        subject.source_id if subject.level == "source" else None,
        subject.dataset_revision,
        said.reviewed_at,
        _impact(said.findings) if said.findings else 0,
        verification.status if verification is not None else _status(attribute),
        said.tests_executed is True,
        verification.scoring_contract if verification is not None else None,
        conversation,
        prompt,
        () if issues is None else _claims(issues),
        event.sample,
    )


def tag_of(event: RuleEvent, said: TagAssigned) -> Tag:
    named = f"{said.namespace}:{said.value}"
    return Tag(event.pos, event.id, said.assignment_id, named, said.supersedes_assignment_id, event.sample)


def text(value: object) -> str | None:
    """A free-form value where it is text."""
    return value if isinstance(value, str) else None


def _impact(findings: list[Finding]) -> int:
    return max([_IMPACT.get(f.severity or "", 0) for f in findings if f.kind == "issue"], default=0)


def _status(attribute: object) -> str | None:
    """The native verifier's status, where the document has it among the attributes."""
    return text(attribute.get("status")) if isinstance(attribute, dict) else None


def _digest(prompt: object) -> str | None:
    """Prompts are told apart by their bytes, so that whole texts need not be kept."""
    return sha256(prompt.encode()).hexdigest() if isinstance(prompt, str) else None


def _claims(entries: object) -> tuple[Claim, ...]:
    """The entries that are objects; whatever else stands there claims nothing."""
    if not isinstance(entries, list):
        return ()
    return tuple(_claim(entry) for entry in entries if isinstance(entry, dict))


def _claim(entry: dict[str, Any]) -> Claim:
    return Claim(
        issue_url=text(entry.get("issue_url")),
        dataset_revision=text(entry.get("dataset_revision")),
        verifier_revision=text(entry.get("verifier_revision")),
        fix_validated=entry.get("fix_validated") is True,
    )
