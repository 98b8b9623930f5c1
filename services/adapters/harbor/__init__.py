"""Harbor's trials, recorded as they finish: by hooks in the program that runs them, or by watching a job's folder.

    from ledger.client import Recorder
    from services.adapters.harbor import Known, TrialHooks

    hooks = TrialHooks(rec, known=lambda trial, task: Known(step=trainer.global_step, group=task))
    hooks.attach(job)                                  # a harbor Job, or a TrialQueue
    await job.run()
    hooks.close()                                      # tells what started and never ended

Where the trials run in another program: `watch(Path("jobs/arm-3"), rec)`, which looks at the folder until the job is
over. Neither needs Harbor to be imported.

Kept:

- A trial is told once, when its result is whole; one that is retried is told for each try, by the id of its result.
- No trial knows its step, its group or the weights that it ran with. Whoever starts it may: `known` is asked when it
  starts, since later the weights may be others. What nobody says stays unknown.
- Consumed, masked and trained are the trainer's to tell.
- What a trial's exception did to its reward is told where the trainer's lists are given, as `treatments`.

A job that is over, or was never watched, is read by `ledger backfill`.
"""

from __future__ import annotations

from services.adapters.harbor.hooks import TrialHooks
from services.adapters.harbor.trials import Known
from services.adapters.harbor.watching import Watcher, watch

__all__ = ["Known", "TrialHooks", "Watcher", "watch"]
