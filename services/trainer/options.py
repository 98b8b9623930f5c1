"""What is asked of one start of the trainer beside its settings, and what comes of it. No torch here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from ledger.client.drafts import Actor
from ledger.core.errors import InvalidInput
from services.trainer.settings import Settings

Resume = Literal["auto", "never"] | int
"""From the latest checkpoint if there is one; from none; or from that of a step."""


@dataclass(frozen=True, kw_only=True)
class Options:
    """What the file of settings does not say."""

    address: str | None = None
    """Of the ledger; None: what is recorded waits in the spool."""
    resume: Resume = "auto"
    receipt: Path | None = None
    """What `ledger check --receipt` wrote."""
    by: Actor | None = None
    """Who records; None: `trainer`."""


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """How it ended."""

    run_id: str
    attempt: int | None
    """None: the run was complete already, and nothing was done."""
    from_step: int
    """Where the attempt began."""
    last_step: int
    checkpoints: str
    """Their folder."""
    steps_saved: list[int]
    selected: Mapping[str, Any] | None = None
    export: Mapping[str, Any] | None = None
    recorded: str = ""
    """What the recorder reports."""
    refused: list[str]
    """What the ledger refused, and why."""

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def parse_resume(text: str) -> Resume:
    """auto, never, or a step.

    Raises:
        InvalidInput: reason USAGE.
    """
    if text in {"auto", "never"}:
        return "auto" if text == "auto" else "never"
    if text.isascii() and text.isdigit():
        return int(text)
    raise InvalidInput(
        f"--resume {text!r} will not do", reason="USAGE", remedy="Give auto, never, or the step of a checkpoint."
    )


def with_steps(settings: Settings, steps: int | None) -> Settings:
    """The settings with another number of steps, if one is named.

    Raises:
        InvalidInput: reason USAGE.
    """
    if steps is None:
        return settings
    if steps < 1:
        raise InvalidInput(f"--steps {steps} will not do", reason="USAGE", remedy="Give a number from 1 on.")
    return settings.model_copy(update={"run": settings.run.model_copy(update={"steps": steps})})
