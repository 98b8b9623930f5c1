"""The checkpoints of a run as tables: what each is worth under the rule, and what was chosen, computed again."""

from __future__ import annotations

from collections.abc import Iterator

from rich.text import Text

from ledger.core.text import harmless
from ledger.wire import runs_pb2
from services.cli import run_words
from services.cli.output import Cell, Output
from services.cli.source_facts import Pairs


def show_checkpoints(out: Output, run: runs_pb2.Run) -> None:
    """All checkpoints in the order of their saves, then each selection."""
    if run.checkpoints:
        out.line()
        out.line(Text("Checkpoints", style="bold"))
        out.table(
            ["  step", "EMA", "reward", "eligible", "state", "scored by", "notes"],
            map(_cells, run.checkpoints),
            whole=("  step",),
            spare=("scored by",),
        )
    for chosen in run.selections:
        out.line()
        out.line(Text(f"Selection of step {chosen.step:,} for {harmless(chosen.purpose)}", style="bold"))
        out.pairs((f"  {name}", value) for name, value in _selection(chosen))


def _cells(saved: runs_pb2.Checkpoint) -> list[Cell]:
    chosen = " *" if saved.selected else ""
    return [
        f"  {saved.step}{chosen}",
        run_words.average(run_words.known(saved, "ema")),
        run_words.average(run_words.known(saved, "reward")),
        "yes" if saved.eligible else "no",
        run_words.spaced(saved.status),
        f"step {saved.scored_by_step}" if saved.HasField("scored_by_step") else "-",
        "; ".join(_notes(saved)) or "-",
    ]


def _notes(saved: runs_pb2.Checkpoint) -> Iterator[str]:
    """What a reader of the row has to know."""
    if saved.selected:
        yield "chosen"
    if saved.before_collapse:
        yield "the last one before the collapse" if saved.last_before_collapse else "before the collapse"
    if saved.off_by_one:
        yield f"holds update {saved.last_update}, one less than its label"
    yield from saved.not_eligible_because
    if saved.HasField("attempt"):
        yield f"attempt {saved.attempt}"


def _selection(chosen: runs_pb2.Selection) -> Pairs:
    yield "rule", run_words.rule(chosen.rule)
    yield "EMA named", run_words.average(run_words.known(chosen, "recorded_ema"))
    yield "reward named", run_words.average(run_words.known(chosen, "recorded_reward"))
    yield "best", run_words.best(chosen)
    yield "recomputed", _recomputed(chosen)
    if chosen.eligible_steps:
        yield "chosen among", ", ".join(f"{step:,}" for step in chosen.eligible_steps)
    if chosen.HasField("wording"):
        yield "called", f"“{chosen.wording}”, which is a claim"
    for note in chosen.notes:
        yield "note", note
    yield "known by", f"{chosen.basis}, event {chosen.pos}"


def _recomputed(chosen: runs_pb2.Selection) -> str:
    said = run_words.RECOMPUTED.get(chosen.recomputed, run_words.spaced(chosen.recomputed))
    parts = [f"step {chosen.computed_step:,}"] if chosen.HasField("computed_step") else []
    parts += run_words.figures(chosen, "computed")
    return f"{said}: {', '.join(parts)}" if parts else said
