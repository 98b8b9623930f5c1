"""The arms of a campaign side by side, and what keeps some of them from being compared.

Curves of one group share a scale, so that they can be read against each other; those of another group have their own.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from rich.text import Text

from ledger.core.text import harmless
from ledger.wire import runs_pb2
from services.cli import run_words
from services.cli.output import Cell, Output
from services.cli.source_facts import Pairs
from services.cli.sparklines import extent, sparkline

Scale = tuple[float, float]


def show_sweep(out: Output, found: runs_pb2.SweepResponse) -> None:
    """What the campaign is for, its arms, and which of them may be compared."""
    out.pairs(_campaign(found))
    if found.arms:
        out.line()
        scales = {group.group: _scale(found.arms, group.group) for group in found.groups}
        out.table(
            ["arm", "run", "varies", "ended", "step", "chosen", "EMA", "best EMA", "reward", "group"],
            [_cells(arm, scales.get(arm.group, (0.0, 0.0))) for arm in found.arms],
            whole=("run", "varies"),
            spare=("arm",),
        )
    for group in found.groups:
        out.line()
        out.line(Text(f"Group {group.group}: {_members(group)}", style="bold"))
        out.pairs((f"  {name}", value) for name, value in _group(group))


def _campaign(found: runs_pb2.SweepResponse) -> Pairs:
    campaign = found.campaign
    declared = campaign.declared
    yield "campaign", campaign.id + (" (sample)" if campaign.sample else "")
    if not campaign.HasField("declared"):
        yield "declared", "by nobody: runs name it"
    for name in ("title", "purpose"):
        if text := run_words.known(declared, name):
            yield name, text
    setting = f" {declared.setting}" if run_words.known(declared, "setting") else ""
    yield "compares", f"{declared.compares}{setting}" if run_words.known(declared, "compares") else None
    if found.not_recorded:
        yield "planned, not recorded", ", ".join(found.not_recorded)
    for claim in campaign.claims:
        yield claim.claim.topic, f"“{claim.claim.statement}”, which is a claim"


def _scale(arms: Iterable[runs_pb2.SweepArm], group: int) -> Scale:
    return extent([reward for arm in arms if arm.group == group for reward in _rewards(arm)])


def _rewards(arm: runs_pb2.SweepArm) -> list[float | None]:
    return [run_words.known(point, "reward") for point in arm.curve]


def _cells(arm: runs_pb2.SweepArm, scale: Scale) -> list[Cell]:
    run = arm.run
    reason = f": {harmless(run.reason)}" if run.HasField("reason") else ""
    return [
        run.arm if run.HasField("arm") else "-",
        run.id + (" (sample)" if run.sample else ""),
        run_words.known(arm, "varies"),
        run_words.status(run.status).append(reason),
        f"{arm.end_step:,}" if arm.HasField("end_step") else None,
        f"{arm.selected_step:,}" if arm.HasField("selected_step") else "-",
        run_words.average(run_words.known(arm, "selected_ema")) or "-",
        run_words.average(run_words.known(arm, "best_ema")) or "-",
        sparkline(_rewards(arm), *scale) or "no series",
        arm.group,
    ]


def _members(group: runs_pb2.ArmGroup) -> str:
    return harmless(", ".join(group.runs))


def _group(group: runs_pb2.ArmGroup) -> Iterator[tuple[str, Cell]]:
    if group.differs_in:
        # Another group is apart also by what is known of one of the two alone, which is no difference yet.
        yield "differs in" if group.group == 1 else "apart by", ", ".join(map(run_words.spaced, group.differs_in))
    if group.unknown:
        yield "unknown", ", ".join(map(run_words.spaced, group.unknown))
    yield "ranked by EMA", ", ".join(group.ranking) or "not ranked: nobody can say that its arms are alike"
    for warning in group.warnings:
        yield "warning", warning
