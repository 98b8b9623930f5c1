"""The arms of a campaign side by side: how each ended, its curve, and which of them may be compared.

Arms are ranked by the highest EMA on their own last lineage, and only among arms that are alike. A ranking is evidence
about arms; it never becomes a source's Quality.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from ledger.audit import likeness
from ledger.audit.coordinates import Moment
from ledger.audit.curves import CurvePoint, RunSeries
from ledger.audit.likeness import Alike, Compared, Value
from ledger.audit.reading import Check, go_on
from ledger.audit.run_briefs import RunBrief
from ledger.audit.run_facts import Dossier, RunFacts
from ledger.audit.wording import quoted

CLAIMED_ONLY: Final = "No step of {} was recorded: it has no curve, and no place in a ranking but the last."


@dataclass(frozen=True, slots=True)
class Arm:
    """One run of a campaign."""

    run: str
    summary: Mapping[str, Any]
    varies: str | None
    curve: tuple[CurvePoint, ...]
    likeness: tuple[Value, ...]
    best_ema: float | None
    selected_step: int | None
    selected_ema: float | None
    dossier: Dossier

    @property
    def end_step(self) -> int | None:
        last: int | None = self.summary.get("last_step")
        return last

    @property
    def sources(self) -> frozenset[str]:
        declared = self.dossier.get("declared") or {}
        return frozenset(map(likeness.source_name, likeness.training_sources(declared)))


@dataclass(frozen=True, slots=True)
class Group:
    """Arms that may be compared, or were asked to be."""

    runs: tuple[str, ...]
    differs_in: tuple[str, ...]
    unknown: tuple[str, ...]
    ranking: tuple[str, ...]
    warnings: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Sweep:
    """A campaign, its arms, and how they fall into groups."""

    campaign: Dossier
    arms: tuple[Arm, ...]
    groups: tuple[Group, ...]
    not_recorded: tuple[str, ...]

    def group_of(self, run: str) -> int:
        """The number of a run's group, from 1."""
        return next(number for number, group in enumerate(self.groups, 1) if run in group.runs)


def sweep(
    campaign: Dossier,
    runs: Iterable[RunBrief],
    facts: RunFacts,
    moment: Moment,
    *,
    compare_unlike: bool = False,
    check: Check = go_on,
) -> Sweep:
    """The arms of a campaign.

    Args:
        campaign: Its dossier, which may hold its id alone.
        runs: Those that name it, in order.
        facts: Where the rest of a run is read.
        moment: Where the answer stands.
        compare_unlike: Rank arms although they are unlike, and say in what.
        check: Called between arms.
    """
    declared: Mapping[str, Any] = campaign.get("declared") or {}
    compared = Compared(declared.get("compares"), declared.get("setting"))
    arms = []
    for run in runs:
        check()
        arms.append(_arm(run, facts, moment, compared, declared))
    return Sweep(campaign, tuple(arms), tuple(_groups(arms, compared, compare_unlike)), _not_recorded(declared, arms))


def planned_runs(campaign: Dossier) -> set[str]:
    """The runs that a campaign itself names as its arms."""
    arms = (campaign.get("declared") or {}).get("arms") or ()
    return {arm["run_id"] for arm in arms if arm.get("run_id") is not None}


def _arm(run: RunBrief, facts: RunFacts, moment: Moment, compared: Compared, campaign: Mapping[str, Any]) -> Arm:
    dossier = facts.run(run.id, moment)
    known = RunSeries(facts.of_run(run.id, moment))
    selected: Mapping[str, Any] = next(reversed(dossier.get("selections") or ()), {})
    return Arm(
        run=run.id,
        summary=run.summary,
        varies=_varies(run, dossier, compared, campaign),
        curve=known.curve(),
        likeness=tuple(likeness.values_of(dossier).values()),
        best_ema=known.best_ema(),
        selected_step=selected.get("step"),
        selected_ema=_number(selected.get("computed_ema", selected.get("recorded_ema"))),
        dossier=dossier,
    )


def _number(value: float | str | None) -> float | None:
    """A dossier writes what is not finite by name."""
    return None if value is None else float(value)


def _varies(run: RunBrief, dossier: Dossier, compared: Compared, campaign: Mapping[str, Any]) -> str | None:
    """The value of what the campaign compares, as the arm has it."""
    if compared.what == likeness.SOURCES:
        return ", ".join(run.summary.get("sources") or ()) or None
    if compared.what != likeness.SETTING or compared.setting is None:
        return run.summary.get("arm")
    return _recorded_setting(dossier, compared) or _planned_setting(run, compared.setting, campaign)


def _recorded_setting(dossier: Dossier, compared: Compared) -> str | None:
    for config in reversed(dossier.get("configs") or ()):
        if compared.setting in config.get("settings", {}):
            return likeness.as_text(config["settings"][compared.setting])
    value = likeness.values_of(dossier).get(compared.name or "")
    return value.value if value else None


def _planned_setting(run: RunBrief, setting: str, campaign: Mapping[str, Any]) -> str | None:
    for arm in campaign.get("arms") or ():
        if run.id == arm.get("run_id") or (run.summary.get("arm") is not None and arm["arm"] == run.summary["arm"]):
            return likeness.as_text((arm.get("settings") or {}).get(setting))
    return None


def _groups(arms: list[Arm], compared: Compared, compare_unlike: bool) -> Iterator[Group]:  # noqa: FBT001  # the request's own switch
    values: dict[str, likeness.Values] = {arm.run: {v.name: v.value for v in arm.likeness} for arm in arms}
    names = likeness.must_be_alike(list(values.values()), compared)
    if compared.what == likeness.SOURCES:
        values = likeness.unshared(values, {arm.run: arm.sources for arm in arms})
    by_id = {arm.run: arm for arm in arms}
    if compare_unlike and arms:
        yield _ranked(likeness.all_together(values, names), by_id, unlike=True)
        return
    for alike in likeness.groups(values, names):
        yield _ranked(alike, by_id, unlike=False)


def _ranked(alike: Alike, arms: Mapping[str, Arm], *, unlike: bool) -> Group:
    members = [arms[run] for run in alike.arms]
    comparable = unlike or not alike.unknown
    ranking = sorted(members, key=lambda arm: (arm.best_ema is None, -(arm.best_ema or 0.0), arm.run))
    return Group(
        runs=alike.arms,
        differs_in=alike.differs_in,
        unknown=alike.unknown,
        ranking=tuple(arm.run for arm in ranking) if comparable else (),
        warnings=tuple(_warnings(alike, members, unlike=unlike)),
    )


def _warnings(alike: Alike, members: list[Arm], *, unlike: bool) -> Iterator[str]:
    if unlike and alike.differs_in:
        yield f"Unlike arms are compared: they differ in {_words(alike.differs_in)}."
    if alike.unknown:
        what = "Arms are compared although" if unlike else "Not ranked:"
        yield f"{what} nobody can say that they are alike in {_words(alike.unknown)}, which is not recorded of each."
    if len({arm.end_step for arm in members}) > 1:
        ends = ", ".join(f"{quoted(arm.run)} at {_step(arm.end_step)}" for arm in members)
        yield f"Arms ended at different steps ({ends}): the highest EMA of more steps has had more chances."
    yield from (CLAIMED_ONLY.format(quoted(arm.run)) for arm in members if not arm.curve)


def _words(names: Iterable[str]) -> str:
    return ", ".join(name.replace("_", " ") for name in names)


def _step(step: int | None) -> str:
    return "an unknown step" if step is None else f"step {step}"


def _not_recorded(campaign: Mapping[str, Any], arms: list[Arm]) -> tuple[str, ...]:
    """Arms that were planned, less those that a run says it is."""
    runs, names = {arm.run for arm in arms}, {arm.summary.get("arm") for arm in arms}
    planned = campaign.get("arms") or ()
    return tuple(arm["arm"] for arm in planned if arm.get("run_id") not in runs and arm["arm"] not in names)
