"""The vocabulary: one frozen model an event type, and the registry that knows them all.

Facts are recorded, decisions are refused: `EventType.decision` says which is which.
"""

from __future__ import annotations

from ledger.events import (
    administration,
    attestations,
    catalogue,
    checkpoints,
    defects,
    difficulty,
    exports,
    policy,
    reviews,
    runs,
    steps,
)
from ledger.events.registry import REGISTRY, EventType, Registry

__all__ = [
    "REGISTRY",
    "EventType",
    "Registry",
    "administration",
    "attestations",
    "catalogue",
    "checkpoints",
    "defects",
    "difficulty",
    "exports",
    "policy",
    "reviews",
    "runs",
    "steps",
]
