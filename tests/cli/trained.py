"""A ledger with two arms of a sweep, for the commands about runs: one that was fine, one that broke and was hostile.

`arm-a` trained on a source that was reviewed and turned bad afterwards; a later attempt made steps again. `arm-b` took
another source, logged a NaN, and everything free of it is text that would steer a terminal or a spreadsheet.
"""

from __future__ import annotations

from typing import Any, Final

from ledger.events.runs import Arm
from tests.audit.running import (
    OTHER,
    attempt,
    attempt_ended,
    campaign,
    declared,
    ended,
    exported,
    exporting,
    logs,
    model,
    saved,
    selected,
    steps,
    taken,
    told,
    traces,
)
from tests.rules import builders
from tests.rules.builders import DATA, SOURCE, VERIFIER
from tests.server.doors import Doors, of

GOOD, BROKEN, SWEEP = "arm-a", "arm-b", "sweep"
HOSTILE: Final = '=cmd \x1b[31mred\x9b1m \u202etxet [bold]b[/bold] `x` "q" <b>'
ENTROPY: Final = "policy/policy_entropy"
REWARDS: Final = {1: 0.2, 2: 0.4, 3: 0.6, 4: 0.8, 5: 0.7}
EMA_AT_4: Final = 0.2 * 8 / 27 + 0.4 * 4 / 27 + 0.6 * 2 / 9 + 0.8 / 3
"""Seeded by the first reward, a third of each later one: the weights of step 1 to 4 on the lineage."""


class Trained:
    """The ledger, and where its defect stands."""

    def __init__(self, address: str, doors: Doors) -> None:
        self.address, self.doors = address, doors
        doors.put_named("trace", "quality-reviews.json", "input-1", "input-2")
        parts = [of(builders.declared("c1", id=source), f"source/{source}") for source in (SOURCE, OTHER)]
        doors.append(*parts, of(builders.synced("c1", [part.id for part in parts])))
        doors.publish("r1", builders.good("r1"))
        self._tell_arms()
        self.defect = (
            int(doors.append(of(builders.confirmed("d1", dataset_revision=DATA, verifier_revision=VERIFIER))).size) - 1
        )
        doors.source(SOURCE, min_size=self.defect + 1)

    def _tell_arms(self) -> None:
        planned = [Arm(arm=name, run_id=run) for name, run in (("a", GOOD), ("b", BROKEN), ("c", "arm-c"))]
        self._tell(campaign(SWEEP, *planned, title="Two arms"))
        self._tell(declared(GOOD, taken(), campaign_id=SWEEP, arm="a"), attempt(GOOD))
        self._tell(steps(GOOD, {1: 0.2, 2: 0.4, 3: 0.1}), saved(GOOD, 2), attempt_ended(GOOD))
        self._tell(attempt(GOOD, 2, resumed=(1, 2)))
        self._tell(steps(GOOD, {step: REWARDS[step] for step in (3, 4, 5)}, 2), saved(GOOD, 4, 2))
        self._tell(selected(GOOD, 4, 2), ended(GOOD, last_step=5), traces(GOOD), logs(GOOD))
        self._tell(exporting("e-1", GOOD, 4), exported("e-1"), model("e-1", "org/model"))
        self._tell(
            declared(BROKEN, taken(OTHER), campaign_id=SWEEP, arm=HOSTILE, purpose=HOSTILE),
            steps(BROKEN, {1: 0.5, 2: "NaN"}, **{ENTROPY: {1: 0.3, 2: "Infinity"}}),
            ended(BROKEN, "failed", reason=HOSTILE),
        )

    def _tell(self, *payloads: Any) -> None:
        self.doors.append(*told(*payloads), atomic=False)
