"""A run's folder in an MLflow file store: a file for each metric, a line for each value; a file for each parameter.

    meta.yaml   metrics/reward/avg_raw_reward ("1785312000000 0.84 15")   params/trainer.algorithm.use_tis

A metric's name may hold slashes, and is then a path. The folder is named by one digest over its files.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

from services.adapters.backfill import metrics
from services.adapters.backfill.accounts import Account
from services.adapters.backfill.documents import Document, harmless_name, read_document

_STARTED: Final = re.compile(r"^start_time: ['\"]?(\d{1,15})['\"]?\s*$", re.MULTILINE | re.ASCII)
_MAX_TEXT: Final = 1 << 20


class Point(NamedTuple):
    """One value of one metric."""

    at_ms: int
    step: int
    key: str
    value: metrics.Value


@dataclass(frozen=True)
class Folder:
    """What a run's folder holds."""

    started_ms: int
    points: list[Point]
    params: dict[str, str]
    document: Document


def read_folder(folder: Path, account: Account) -> Folder:
    """Reads a run's folder; lines that are no value are counted, with their places."""
    lines = hashlib.sha256()
    size = 0
    points: list[Point] = []
    for path in _files(folder / "metrics"):
        document = read_document(path)
        key = path.relative_to(folder / "metrics").as_posix()
        lines.update(f"{document.sha256}  metrics/{harmless_name(key)}\n".encode())
        size += document.size
        points += _points(document, key, account)
    params = {p.relative_to(folder / "params").as_posix(): _text(p) for p in _files(folder / "params")}
    for name, value in params.items():
        lines.update(f"{hashlib.sha256(value.encode()).hexdigest()}  params/{harmless_name(name)}\n".encode())
    meta = folder / "meta.yaml"
    found = _STARTED.search(_text(meta)) if meta.is_file() else None
    document = Document(folder, lines.hexdigest(), size)
    return Folder(int(found[1]) if found else 0, points, params, document)


def _points(document: Document, key: str, account: Account) -> Iterator[Point]:
    for number, line in enumerate(document.lines(), 1):
        parts = line.decode("utf-8", "replace").split()
        at_ms = metrics.step_number(parts[0]) if len(parts) in (2, 3) else None
        value = metrics.from_text(parts[1]) if at_ms is not None else None
        step = metrics.step_number(parts[2] if len(parts) == 3 else "0") if value is not None else None
        if at_ms is None or value is None or step is None:
            account.malformed_at(document, number, "no line of MLflow's: a time, a value and a step")
        else:
            yield Point(at_ms, step, key, value)


def _files(folder: Path) -> list[Path]:
    """Regular files below a folder, in order; links are not followed."""
    if not folder.is_dir():
        return []
    return sorted(p for p in folder.rglob("*") if p.is_file() and not p.is_symlink())


def _text(path: Path) -> str:
    with path.open("rb") as file:
        return file.read(_MAX_TEXT).decode("utf-8", "replace")
