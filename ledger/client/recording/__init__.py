"""Recording from a training loop: kept on disk before the call returns, sent when there is somebody to send it to.

    from ledger.client.recording import Recorder

    with Recorder("127.0.0.1:7410", run="taco-arm-3") as rec:
        rec.start_attempt()
        rec.step(1, {"reward/avg_raw_reward": 0.84})

`Recorder` is what a loop holds, `Report` what became of it; `sync` sends what a spool still holds.
"""

from __future__ import annotations

from ledger.client.recording.recorder import Recorder
from ledger.client.recording.reports import RefusedDraft, Report
from ledger.client.recording.syncing import Synced, sync

__all__ = ["Recorder", "RefusedDraft", "Report", "Synced", "sync"]
