"""SkyRL trainers, recorded as they train: upstream's, the fork's with its own callbacks, synchronous or fully async.

    from ledger.client import Recorder
    from services.adapters.skyrl import declaration, record

    class Recorded(BasePPOExp):                                   # or the fork's TerminalBenchExp
        def get_trainer(self, *args, **kwargs):
            trainer = super().get_trainer(*args, **kwargs)
            rec = Recorder("127.0.0.1:7410", run="taco-arm-3")
            rec.declare_run(sources=[...], rl_start={...}, **declaration(trainer.cfg))
            return record(trainer, rec)

`record` wraps methods of this one trainer, and adds a callback where the trainer takes one. So it sees what callbacks
are not told of: the resume, a save after the loop and what is in it, exports, transfers of weights, deletions, groups
that were thrown away, and an exception that ends it all. `MarinCallback` and `SkyRLCallback` are the callbacks alone,
for a trainer that must not be touched; they miss those.

Kept by all of it:

- Nothing that goes wrong here stops or slows the training beyond the recorder's own promises.
- A fact is recorded once, whichever hooks tell it; metrics when they are complete, which is when they are logged.
- A label is not an update: a checkpoint is told with its folder's number and with the last update that is in it.
- SkyRL counts no versions of weights. Here a version is the number of the last update in the weights. Which one sampled
  the rollouts of a step is told of synchronous trainers alone.
- The configuration is copied when `record` is called, before the trainer changes it.

Whether the run is over, nobody knows but you: `rec.end_run("completed")`.
"""

from __future__ import annotations

from services.adapters.skyrl.callbacks import MarinCallback, SkyRLCallback
from services.adapters.skyrl.declarations import declaration
from services.adapters.skyrl.wrapping import record

__all__ = ["MarinCallback", "SkyRLCallback", "declaration", "record"]
