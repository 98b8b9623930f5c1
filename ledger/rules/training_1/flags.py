"""Every contradiction in a run's facts: what is flagged, never refused. Each names its numbers and its events."""

from __future__ import annotations

from ledger.rules.training_1.attempt_flags import course_flags, life_flags, transfer_flags
from ledger.rules.training_1.checkpoint_flags import checkpoint_flags
from ledger.rules.training_1.flagging import Flag, of_odd
from ledger.rules.training_1.model import Life, Run
from ledger.rules.training_1.remembering import remembered


def run_flags(run: Run) -> tuple[Flag, ...]:
    """In the order of the last event that each of them names."""
    seen = (of_odd(odd) for odd in (*run.series.odd, *run.work.odd, *run.strays))
    sent = transfer_flags(run.life, run.series, run.work)
    found = (*_of_life(run.life), *course_flags(run.life, run.series), *sent, *seen)
    return tuple(sorted(found, key=lambda flag: (max(flag.positions), flag.code, flag.message)))


@remembered
def _of_life(life: Life) -> tuple[Flag, ...]:
    """A step leaves them as they are, and there are many steps."""
    return (*life_flags(life), *checkpoint_flags(life))
