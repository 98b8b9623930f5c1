"""What a validation says it ran: replays of saved inputs and controls, from flags or from a JSON file.

The file is one object with any of `replays`, `controls` and `fix`:

    {"replays":  [{"input": "case-7.json", "expected": "reward 0", "observed": "reward 0", "passed": true}],
     "controls": [{"kind": "incorrect", "expected": "reward 0", "observed": "reward 0", "passed": true}],
     "fix": "https://github.com/…/pull/12"}

An input is a file beside the JSON file, or the SHA-256 of one that is stored.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Final, Literal

from pydantic import Field, TypeAdapter, ValidationError

from ledger.client import faults
from ledger.client.drafts import Upload
from ledger.client.evidence import upload_of
from ledger.core import strictjson
from ledger.core.errors import InvalidInput, Problem
from ledger.events.defects import Control, Replay
from ledger.events.fields import Record, Text
from ledger.events.wording import words

CONTROL_KINDS: Final = ("incorrect", "correct", "empty", "trivial", "perturbed")
OUTCOMES: Final = {"passed": True, "failed": False}
_SHA256: Final = re.compile(r"[0-9a-f]{64}")


@dataclass
class Checks:
    """What was run, and the input files to store."""

    replays: list[Replay] = field(default_factory=list)
    controls: list[Control] = field(default_factory=list)
    uploads: list[Upload] = field(default_factory=list)
    fix: str | None = None


class _FileReplay(Record):
    input: Annotated[str, Field(min_length=1)]
    expected: Text
    observed: Text
    passed: bool


class _FileControl(Record):
    kind: Literal["incorrect", "correct", "empty", "trivial", "perturbed"]
    expected: Text
    observed: Text
    passed: bool


class _ChecksFile(Record):
    replays: tuple[_FileReplay, ...] = ()
    controls: tuple[_FileControl, ...] = ()
    fix: Text | None = None


def read_checks(path: Path) -> Checks:
    """The checks of a file.

    Raises:
        InvalidInput: reason INVALID_FILE, with every fault at "FILE#/json/pointer".
    """
    try:
        content = path.read_bytes()
        strictjson.parse(content)
        listed = TypeAdapter(_ChecksFile).validate_json(content)
    except OSError as error:
        raise faults.unreadable(path, error) from None
    except InvalidInput as error:
        raise _bad_file(path, [Problem(f"{path}#{p.place}", p.message) for p in error.problems]) from None
    except ValidationError as error:
        found = error.errors(include_url=False, include_input=False)
        problems = [Problem(f"{path}#{strictjson.pointer(*f['loc'])}", words(f)) for f in found]
        raise _bad_file(path, problems) from None
    checks = Checks(fix=listed.fix, controls=[Control(**c.model_dump()) for c in listed.controls])
    for replay in listed.replays:
        add_replay(checks, path.parent, replay.input, replay.expected, replay.observed, passed=replay.passed)
    return checks


def add_flags(
    checks: Checks, replays: Iterable[tuple[str, str, str, str]], controls: Iterable[tuple[str, str, str, str]]
) -> None:
    """Adds what the flags name: (outcome, input, expected, observed) and (outcome, kind, expected, observed)."""
    for outcome, name, expected, observed in replays:
        add_replay(checks, Path(), name, expected, observed, passed=OUTCOMES[outcome])
    for outcome, kind, expected, observed in controls:
        checks.controls.append(
            Control.model_validate(
                {"kind": kind, "expected": expected, "observed": observed, "passed": OUTCOMES[outcome]}
            )
        )


def add_replay(checks: Checks, folder: Path, name: str, expected: str, observed: str, *, passed: bool) -> None:
    """Adds one replay; its input is stored unless it is named by its hash."""
    sha256 = name
    if not _SHA256.fullmatch(name):
        upload = upload_of(folder / name)
        checks.uploads.append(upload)
        sha256 = upload.sha256
    checks.replays.append(Replay(input_sha256=sha256, expected=expected, observed=observed, passed=passed))


def _bad_file(path: Path, problems: list[Problem]) -> InvalidInput:
    remedy = "Write one JSON object with `replays`, `controls` and `fix`; see `ledger defect validation --help`."
    return faults.refused(path, "description of a validation", problems, remedy=remedy)
