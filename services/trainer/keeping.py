"""Which checkpoints of a run are kept: all, or the newest ones with those that are chosen.

A save that was selected is never deleted, and neither is the one that the rule would select as of now: with few saves
kept it would else be gone before the run's end, when it is chosen.
"""

from __future__ import annotations

from services.trainer import checkpoint_folders
from services.trainer.histories import History, Saved
from services.trainer.provenance import Provenance
from services.trainer.selections import choose
from services.trainer.settings import Settings


def to_delete(history: History, settings: Settings) -> list[Saved]:
    """The saves that are one too many, oldest first."""
    kept = settings.run.checkpoints_kept
    if not kept:
        return []
    oldest_first = sorted(history.saves, key=lambda save: (save.attempt, save.step))
    best = choose(history, settings.run.checkpoint_interval) if settings.select.enabled else None
    return [
        save
        for save in oldest_first[:-kept]
        if (save.attempt, save.step) not in history.selected and (best is None or save != best.saved)
    ]


def delete_old(history: History, settings: Settings, provenance: Provenance) -> None:
    """Deletes them, and says so."""
    reason = f"of the checkpoints the {settings.run.checkpoints_kept} newest are kept"
    for save in to_delete(history, settings):
        folder = checkpoint_folders.root(settings.run.folder) / save.folder
        if folder.is_dir():
            checkpoint_folders.delete(folder)
        history.delete(save)
        provenance.deleted(save.step, save.attempt, reason)
