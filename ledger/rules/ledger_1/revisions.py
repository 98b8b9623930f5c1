"""Revisions as typed identities, and what it takes for one to cover another.

A revision is a commit (40 hex digits), a digest (64) or a version (anything else). Only identities of one kind can be
compared: another value of the same kind is another revision, a value of another kind says nothing. Unknown is equal to
nothing.
"""

from __future__ import annotations

import re
from typing import Final, Literal, NamedTuple

Kind = Literal["commit", "digest", "version"]
Answer = Literal["same", "different", "unknown"]

_HEX: Final = re.compile(r"(?:[0-9a-f]{40}|[0-9a-f]{64})")


class Revisions(NamedTuple):
    """What pins the data and the verifier; None is unknown."""

    dataset: str | None
    verifier: str | None


def kind(revision: str) -> Kind:
    if not _HEX.fullmatch(revision):
        return "version"
    return "commit" if len(revision) == 40 else "digest"


def is_content(revision: str) -> bool:
    """Whether it names bytes: a version is a name that somebody may give to others."""
    return kind(revision) != "version"


def compare(then: str | None, now: str | None) -> Answer:
    if then is None or now is None:
        return "unknown"
    if then == now:
        return "same"
    return "different" if kind(then) == kind(now) else "unknown"
