"""What became of what a recorder was given."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True)
class RefusedDraft:
    """One draft that was refused, and why. The file holds it whole."""

    id: str
    type: str
    reason: str
    message: str
    remedy: str
    file: Path


@dataclass(frozen=True)
class Report:
    """The counts of a recorder since it was opened."""

    spool: Path | None = None
    """Null: this recorder does nothing, as on ranks other than the first."""
    recorded: int = 0
    """Drafts written to the spool."""
    answered: int = 0
    """Drafts that the ledger has, or refused; of earlier recorders on this spool too."""
    waiting: int = 0
    """Drafts in the spool that were not answered yet."""
    dropped: int = 0
    """Metrics for which there was no room."""
    left_out: int = 0
    """Single metric values that are no numbers; their steps were recorded without them."""
    refused: tuple[RefusedDraft, ...] = ()
    redactions: Mapping[str, int] = field(default_factory=dict)
    unreadable_bytes: int = 0
    """Cut off the spool when it was opened: a crash had torn it."""
    error: str = ""
    """Why nothing could be sent at the last try; empty when it could."""

    @property
    def complete(self) -> bool:
        """Whether the ledger has everything that was recorded."""
        return not (self.waiting or self.dropped or self.left_out or self.refused)

    def __str__(self) -> str:
        if self.spool is None:
            return "nothing is recorded here"
        said = [f"{self.recorded:,} recorded", f"{self.answered:,} answered"]
        for count, what in (
            (self.waiting, "waiting"),
            (self.dropped, "dropped"),
            (self.left_out, "metric values left out"),
            (len(self.refused), f"refused (see {self.spool / 'refused'})"),
            (sum(self.redactions.values()), "secrets redacted"),
        ):
            if count:
                said.append(f"{count:,} {what}")
        advice = f": run `ledger sync {self.spool}`" if self.waiting else ""
        return ", ".join(said) + advice
