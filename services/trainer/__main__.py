"""One process of a run, for launchers: `torchrun --nproc-per-node 2 -m services.trainer CONFIG`.

Where nothing else starts processes, `ledger train CONFIG` is the command for people. Told are lines, of JSON with
--json; the exit code is that of the command.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ledger.client.drafts import actor
from ledger.core.errors import REASONS, LedgerError
from ledger.core.text import harmless
from services.trainer.distributed import own_rank
from services.trainer.options import Options, parse_resume, with_steps
from services.trainer.running import run
from services.trainer.settings import read_settings
from services.trainer.words import line_of


def main(arguments: Sequence[str] | None = None) -> int:
    asked = _parser().parse_args(arguments)
    tell = _tell_json if asked.json else _tell
    if asked.launched:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        settings = with_steps(read_settings(asked.config), asked.steps)
        options = Options(
            address=asked.address,
            resume=parse_resume(asked.resume),
            receipt=asked.receipt,
            by=actor(asked.actor, asked.actor_kind) if asked.actor else None,
        )
        outcome = run(settings, options, tell=tell)
    except LedgerError as error:
        return _fail(error, as_json=asked.json)
    except KeyboardInterrupt as error:
        stopped = LedgerError(
            f"interrupted{f' by {error}' if str(error) else ''}",
            reason="INTERRUPTED",
            remedy="`--resume auto` goes on from the last checkpoint.",
        )
        return _fail(stopped, as_json=asked.json)
    if own_rank() == 0:  # under another launcher all processes have the terminal
        tell({"kind": "end", **outcome.to_dict()})
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m services.trainer", description=__doc__)
    parser.add_argument("config", type=Path)
    parser.add_argument("--address")
    parser.add_argument("--resume", default="auto")
    parser.add_argument("--steps", type=int)
    parser.add_argument("--receipt", type=Path)
    parser.add_argument("--actor")
    parser.add_argument("--actor-kind", default="unknown")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--launched", action="store_true", help="stop at SIGTERM alone: an interrupt is the launcher's")
    return parser


def _fail(error: LedgerError, *, as_json: bool) -> int:
    if as_json:
        _tell_json({"kind": "error", **error.to_dict()})
    else:
        print(f"Error: {harmless(error.message)} [{error.reason}]\n{harmless(error.remedy)}", file=sys.stderr)  # noqa: T201
    return REASONS[error.reason].exit


def _tell_json(told: Mapping[str, Any]) -> None:
    print(json.dumps(told), flush=True)  # noqa: T201  # it is what this program is for


def _tell(told: Mapping[str, Any]) -> None:
    print(harmless(line_of(told)), flush=True)  # noqa: T201


if __name__ == "__main__":
    sys.exit(main())
