"""What somebody says of a run or an export, beside what is recorded or derived of the same.

A claim agrees or contradicts only where there is something to hold it against; what nothing here can tell stays not
checkable, and what was itself only told is no evidence. That nothing is claimed of a topic is a claim too, and
contradicts one that does.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import isclose, isfinite
from typing import Any, Final, NamedTuple

from ledger.rules.training_1.decoding import plain
from ledger.rules.training_1.growing import items
from ledger.rules.training_1.history import saves
from ledger.rules.training_1.model import Export, Fact, Run
from ledger.rules.training_1.reading import ClaimRecorded
from ledger.rules.training_1.recomputing import TOLERANCE
from ledger.rules.training_1.selecting import recomputed
from ledger.rules.training_1.standing import standing
from ledger.rules.training_1.values import measured, shown

RATIO_TOLERANCE: Final = 0.1
"""Of a ratio that is said to be roughly something."""


class Against(NamedTuple):
    """What a claim is held against: whether it agrees, None where that cannot tell, and the words for what is known."""

    agrees: bool | None
    words: str


def run_claims(run: Run) -> list[dict[str, Any]]:
    """As `Claim` in runs.proto."""
    return [_written(fact, run.life.claims, lambda said: _of_run(run, said)) for fact in run.life.claims]


def export_claims(export: Export) -> list[dict[str, Any]]:
    return [_written(fact, export.claims, lambda said: _of_export(export, said)) for fact in export.claims]


def campaign_claims(claims: tuple[Fact[ClaimRecorded], ...]) -> list[dict[str, Any]]:
    """Nothing is derived of a campaign here; its claims can only contradict each other."""
    return [_written(fact, claims, lambda _: None) for fact in claims]


def _written(
    fact: Fact[ClaimRecorded],
    all_claims: tuple[Fact[ClaimRecorded], ...],
    known: Callable[[ClaimRecorded], Against | None],
) -> dict[str, Any]:
    found = _absence(fact, all_claims) if fact.said.absent else known(fact.said)
    claim: dict[str, Any] = {"pos": fact.pos, "claim": plain(fact.body), "standing": "not_checkable"}
    if found is not None:
        claim |= {"standing": _STANDINGS[found.agrees], "against": found.words}
    return claim


_STANDINGS: Final = {True: "agrees", False: "contradicts", None: "not_checkable"}


def _absence(fact: Fact[ClaimRecorded], all_claims: tuple[Fact[ClaimRecorded], ...]) -> Against | None:
    others = [o.pos for o in all_claims if o.said.topic == fact.said.topic and not o.said.absent]
    return Against(False, f"something is claimed of it at {', '.join(map(str, others))}") if others else None


# Runs


def _of_run(run: Run, said: ClaimRecorded) -> Against | None:
    held = _RUN_TOPICS.get(said.topic)
    return held(run, said) if held else None


def _selection(attribute: str, words: str) -> Callable[[Run, ClaimRecorded], Against | None]:
    """The claimed number against the series; where there is none, against the selection as it was recorded."""

    def held(run: Run, said: ClaimRecorded) -> Against | None:
        number = measured(said.number)
        selections = [s for s in run.life.selections if said.subject.step in {None, s.said.step}]
        if number is None or not selections:
            return None
        last = selections[-1]
        computed = getattr(recomputed(run, last.said, last.pos), f"computed_{attribute}")
        if computed is not None:
            return Against(
                _near(number, computed), f"the {words} at step {last.said.step} is computed as {computed:.4f}"
            )
        recorded = measured(getattr(last.said, attribute))
        if recorded is None:
            return None
        if last.said.basis is None:
            return Against(_near(number, recorded), f"the selection at {last.pos} records {recorded:.4f}")
        # Told twice, by a page or by two of them, a number is no evidence of itself.
        same = "the same" if _near(number, recorded) else f"{recorded:.4f}"
        return Against(None, f"the selection at position {last.pos} names {same}, and is itself {last.said.basis.kind}")

    return held


def _selected_step(run: Run, said: ClaimRecorded) -> Against | None:
    number = measured(said.number)
    steps = sorted({s.said.step for s in run.life.selections if s.said.basis is None})
    if number is None or not steps:
        return None
    return Against(number in steps, f"selected: step {', '.join(map(str, steps))}")


def _steps_trained(run: Run, said: ClaimRecorded) -> Against | None:
    number, spans = measured(said.number), run.series.spans
    if number is None:
        return None
    if spans:
        last = max(span.last for span in spans.values())
        return Against(number == last, f"steps were logged up to {last}")
    named = [(end.said.last_step, end.pos) for end in run.life.ends if end.said.basis is None]
    named += [(over.said.last_step, over.pos) for over in run.life.run_ends if over.said.basis is None]
    steps = [(step, pos) for step, pos in named if step is not None]
    if not steps:
        return None
    step, pos = max(steps)
    return Against(number == step, f"the last step is recorded as {step} at {pos}")


def _entropy_ratio(run: Run, said: ClaimRecorded) -> Against | None:
    number = measured(said.number)
    logged = [(p.step, p.entropy) for p in standing(run).points if p.entropy is not None and isfinite(p.entropy)]
    if number is None or len(logged) < 2 or logged[0][1] <= 0:
        return None
    ratios = {step: entropy / logged[0][1] for step, entropy in logged}
    step, ratio = max(ratios.items(), key=lambda one: one[1])
    if said.subject.step is not None and said.subject.step in ratios:
        step, ratio = said.subject.step, ratios[said.subject.step]
    words = f"entropy at step {step} is {shown(ratio)} times its value at step {logged[0][0]}"
    return Against(isclose(number, ratio, rel_tol=RATIO_TOLERANCE), words)


def _onset(run: Run, said: ClaimRecorded) -> Against | None:
    number, now = measured(said.number), standing(run)
    if number is None or not now.points:
        return None
    if now.onset is None:
        return Against(False, f"no lasting anomaly is diagnosed in {len(now.points)} steps")
    return Against(number == now.onset, f"the failure that lasted is diagnosed to begin at step {now.onset}")


def _final_reward(run: Run, said: ClaimRecorded) -> Against | None:
    number = measured(said.number)
    rewards = [(p.step, p.reward) for p in standing(run).points if p.reward is not None]
    if number is None or not rewards:
        return None
    step, last = rewards[-1]
    return Against(_near(number, last), f"the reward at step {step} is {last:.4f}")


def _checkpoints(run: Run, said: ClaimRecorded) -> Against | None:
    number = measured(said.number)
    known = [save for save in saves(run.life) if save.said is not None and save.said.basis is None]
    if number is None or not known:
        return None
    return Against(number == len(known), f"{len(known)} checkpoints were committed")


def _ending(run: Run, said: ClaimRecorded) -> Against | None:
    ends = [over for over in run.life.run_ends if over.said.basis is None and over.said.ending != "unknown"]
    if said.text is None or not ends:
        return None
    return Against(said.text == ends[-1].said.ending, f"the run's end is recorded as {ends[-1].said.ending}")


def _tis(run: Run, said: ClaimRecorded) -> Against | None:
    """Said to have been trained with the correction: it holds if it was applied on every step that says so."""
    steps = [p.tis_skipped for p in items(run.series.points) if p.tis_skipped is not None]
    if not steps:
        return None
    applied = sum(skipped < 1 for skipped in steps)
    number = measured(said.number)
    share = applied / len(steps)
    return Against(
        share == 1 if number is None else _near(number, share), f"applied on {applied} of {len(steps)} steps"
    )


_RUN_TOPICS: Final[Mapping[str, Callable[[Run, ClaimRecorded], Against | None]]] = {
    "selection.ema": _selection("ema", "trailing EMA"),
    "selection.reward": _selection("reward", "reward"),
    "selection.step": _selected_step,
    "steps.trained": _steps_trained,
    "entropy.ratio": _entropy_ratio,
    "collapse.onset": _onset,
    "reward.final": _final_reward,
    "checkpoints.saved": _checkpoints,
    "run.ending": _ending,
    "tis.applied": _tis,
}


# Exports


def _of_export(export: Export, said: ClaimRecorded) -> Against | None:
    held = _EXPORT_TOPICS.get(said.topic)
    return held(export, said) if held else None


def _verification(export: Export, _said: ClaimRecorded) -> Against | None:
    verified = [fact.pos for fact in export.verified if fact.said.basis is None]
    if verified:
        return Against(agrees=True, words=f"a verification is recorded at {verified[-1]}")
    if export.failed and export.failed[-1].said.stage == "verify":
        failed = export.failed[-1]
        return Against(agrees=False, words=f"a verification failed at {failed.pos}: {failed.said.reason}")
    return None


def _parameters(export: Export, said: ClaimRecorded) -> Against | None:
    number = measured(said.number)
    counts = [fact.said.numbers.parameter_count for fact in export.verified if fact.said.basis is None]
    counts += [fact.said.parameter_count for fact in export.completed if fact.said.basis is None]
    known = next((count for count in counts if count is not None), None)
    if number is None or known is None:
        return None
    # A size label such as 8B rounds to one or two digits.
    return Against(isclose(number, known, rel_tol=RATIO_TOLERANCE), f"{known} parameters were counted")


def _route(export: Export, said: ClaimRecorded) -> Against | None:
    routes = [fact.said.route for fact in export.started if fact.said.basis is None and fact.said.route != "unknown"]
    if said.text is None or not routes:
        return None
    return Against(said.text == routes[-1], f"the route is recorded as {routes[-1]}")


_EXPORT_TOPICS: Final[Mapping[str, Callable[[Export, ClaimRecorded], Against | None]]] = {
    "export.verification": _verification,
    "export.parameters": _parameters,
    "export.route": _route,
}


def _near(number: float, known: float) -> bool:
    return abs(number - known) <= TOLERANCE
