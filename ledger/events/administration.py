"""The log's own events: keys, principals, redactions, disregards, promotions, heads."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from ledger.events.fields import AnyText, Count, EventId, Name, Record, Sha256, Text
from ledger.events.registry import event

Pointer = Annotated[str, Field(pattern=r"^(/([^/~]|~[01])*)*$", max_length=2000)]
"""A JSON pointer (RFC 6901); the empty one is the whole payload."""


@event("key.introduced", family="ledger", streams=("ledger",))
class KeyIntroduced(Record):
    """A key that signs this log's checkpoints."""

    key: Name
    algorithm: Literal["ed25519"]
    public_key: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
    """The 32 raw bytes in lower-case hex."""


@event("key.retired", family="ledger", streams=("ledger",))
class KeyRetired(Record):
    key: Name
    reason: Text


@event("principal.granted", family="ledger", streams=("ledger",))
class PrincipalGranted(Record):
    """A caller may append the families that its roles name."""

    principal: Name
    roles: list[Name]
    credential_sha256: Sha256 | None


@event("principal.revoked", family="ledger", streams=("ledger",))
class PrincipalRevoked(Record):
    principal: Name
    reason: Text


@event("event.redacted", family="ledger", streams=("ledger",), decision=True)
class EventRedacted(Record):
    """Parts of a payload were destroyed; what is left has this commitment."""

    pos: Count
    leaf_hash: Sha256
    pointers: Annotated[list[Pointer], Field(min_length=1)]
    reason: Text
    authority: Text
    remainder_commitment: Sha256


@event("artifact.redacted", family="ledger", streams=("ledger",))
class ArtifactRedacted(Record):
    sha256: Sha256
    reason: Text
    authority: Text


@event("event.disregarded", family="ledger", streams=("ledger",), decision=True)
class EventDisregarded(Record):
    """An event stays, and counts for nothing from here on."""

    pos: Count
    event: EventId
    reason: Text


@event("projection.promoted", family="ledger", streams=("ledger",), decision=True)
class ProjectionPromoted(Record):
    """From here on readers are answered by this generation: its rules are in force."""

    projection: Name
    rules: Name
    rules_digest: Sha256
    fold_digest: Sha256
    upcaster_digest: Sha256
    size: Count
    """The size at which the difference was taken."""
    diff_digest: Sha256
    moved: Count
    """How many keys the promotion moves."""
    generation: Name | None = None
    """The generation's id, in the database that promoted it."""
    note: AnyText | None = None


@event("log.heads", family="ledger", streams=("ledger",))
class LogHeads(Record):
    """The root over every stream's newest event, so that "these are all" can be proved."""

    size: Count
    root: Sha256
