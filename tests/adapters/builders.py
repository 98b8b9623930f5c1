"""Small files of other programs, made by hand: trials of a job, exports, checkpoints, trackers' stores."""

from __future__ import annotations

import json
import sqlite3
import struct
import tarfile
from collections.abc import Iterable, Mapping
from contextlib import closing
from io import BytesIO
from pathlib import Path
from typing import Any

from ledger.client import actor
from ledger.events import REGISTRY
from services.adapters.backfill.imports import Import

VECTORS = Path(__file__).parents[1] / "vectors" / "backfill"
ME = actor("importer", "human")


def events(found: Import, type_: str | None = None) -> list[dict[str, Any]]:
    """The payloads of an import's drafts, each taken by its own type; with the type where none is asked for."""
    said = []
    for draft in found.drafts():
        REGISTRY.check(draft.type, draft.type_version, draft.payload)
        payload = json.loads(draft.payload)
        if type_ is None:
            said.append({"type": draft.type, **payload})
        elif draft.type == type_:
            said.append(payload)
    return said


def ids(found: Import) -> list[str]:
    return [draft.id for draft in found.drafts()]


def mirror(step: int, kind: str = "train", **metrics: float) -> str:
    """A line as the trainer writes it."""
    values = {"trainer/global_step": step, "reward/avg_raw_reward": step / 100, **metrics}
    return f"WANDB_MIRROR kind={kind} step={step} metrics={json.dumps(values, sort_keys=True)}"


def log(path: Path, *lines: str) -> Path:
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8", errors="surrogateescape")
    return path


def result(name: str, **fields: Any) -> dict[str, Any]:
    """A trial's result, as far as it is needed."""
    return {
        "id": "0d9c7a9e-6a0e-4c0d-9f55-1f0f5a3f9b11",
        "task_name": name.partition("__")[0],
        "trial_name": name,
        "task_checksum": "a" * 64,
        "started_at": "2026-07-29T10:00:00",
        "finished_at": "2026-07-29T10:05:30",
        "agent_result": {"n_input_tokens": 1200, "n_output_tokens": 80, "rollout_details": []},
        "agent_execution": {"started_at": "2026-07-29T10:01:00", "finished_at": "2026-07-29T10:04:00.5"},
        **fields,
    }


def trial(job: Path, name: str, files: Mapping[str, Any]) -> None:
    """A trial's folder; what is no text is written as JSON."""
    for file, content in files.items():
        path = job / name / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content if isinstance(content, str) else json.dumps(content))


def archive(path: Path, members: Iterable[tuple[str, Any]]) -> Path:
    """A gzipped tar; a member whose content is None is a link out of it."""
    with tarfile.open(path, "w:gz") as packed:
        for name, content in members:
            info = tarfile.TarInfo(name)
            if content is None:
                info.type, info.linkname = tarfile.SYMTYPE, "/etc/passwd"
                packed.addfile(info)
                continue
            data = (content if isinstance(content, str) else json.dumps(content)).encode()
            info.size = len(data)
            packed.addfile(info, BytesIO(data))
    return path


def shard(path: Path, tensors: Mapping[str, tuple[str, list[int]]], *, cut: int = 0) -> int:
    """A safetensors file of zeros; gives the bytes of its tensors."""
    bits = {"F32": 32, "BF16": 16}
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    at = 0
    for name, (dtype, shape) in tensors.items():
        size = bits[dtype] // 8
        for length in shape:
            size *= length
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [at, at + size]}
        at += size
    data = json.dumps(header).encode()
    path.write_bytes((struct.pack("<Q", len(data)) + data + bytes(at))[: len(data) + 8 + at - cut])
    return at


def export(
    folder: Path, *, cut: int = 0, total: int | None = None, weight_map: Mapping[str, str] | None = None
) -> Path:
    """An export of two shards, whole unless asked otherwise."""
    folder.mkdir(parents=True, exist_ok=True)
    one, two = "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"
    size = shard(folder / one, {"embed.weight": ("BF16", [4, 3]), "a.weight": ("F32", [2, 2])})
    size += shard(folder / two, {"b.weight": ("BF16", [5])}, cut=cut)
    index = {
        "metadata": {"total_size": size if total is None else total},
        "weight_map": weight_map or {"embed.weight": one, "a.weight": one, "b.weight": two},
    }
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    (folder / "config.json").write_text(json.dumps({"tie_word_embeddings": True}))
    return folder


def checkpoint(folder: Path, step: int, policy: Iterable[str], *, state: bool = True) -> Path:
    """A checkpoint's folder whose files nobody could unpickle."""
    place = folder / f"global_step_{step}"
    for name in policy:
        path = place / "policy" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(f"not a pickle: {step} {name}".encode())
    if state:
        place.mkdir(parents=True, exist_ok=True)
        (place / "trainer_state.pt").write_bytes(b"cos\nsystem\n(S'false'\ntR.")
        (place / "data.pt").write_bytes(b"x")
    return place


def mlflow_database(path: Path, points: Iterable[tuple[str, str, float, int, int, bool]]) -> Path:
    """MLflow's tables, as far as they are read: (run, key, value, timestamp, step, is_nan)."""
    points = list(points)
    with closing(sqlite3.connect(path)) as database:
        database.executescript(
            "CREATE TABLE runs (run_uuid TEXT, name TEXT, start_time INTEGER, end_time INTEGER, status TEXT);"
            "CREATE TABLE metrics (key TEXT, value REAL, timestamp INTEGER, run_uuid TEXT, step INTEGER, is_nan INTEGER);"
            "CREATE TABLE params (key TEXT, value TEXT, run_uuid TEXT);"
        )
        for run in dict.fromkeys(p[0] for p in points):
            first = min(p[3] for p in points if p[0] == run)
            database.execute("INSERT INTO runs VALUES (?, 'a', ?, NULL, 'FINISHED')", [run, first])
            database.execute("INSERT INTO params VALUES ('trainer.lr', '8e-06', ?)", [run])
        database.executemany(
            "INSERT INTO metrics (run_uuid, key, value, timestamp, step, is_nan) VALUES (?, ?, ?, ?, ?, ?)", points
        )
        database.commit()
    return path


def wandb_file(path: Path, rows: Iterable[Mapping[str, Any]], *, cut: int = 0) -> Path:
    """An offline run's file with its history, written as the format has it."""

    def varint(number: int) -> bytes:
        out = bytearray()
        while number >= 0x80:
            out.append(number & 0x7F | 0x80)
            number >>= 7
        return bytes([*out, number])

    def field(number: int, data: bytes) -> bytes:
        return varint(number << 3 | 2) + varint(len(data)) + data

    out = bytearray(b":W&B\xe1\xbe\x00")
    for step, row in enumerate(rows):
        items = [field(1, field(2, key.encode()) + field(16, json.dumps(value).encode())) for key, value in row.items()]
        record = b"\x08\x01" + field(2, b"".join(items) + field(2, b"\x08" + varint(step)))
        kind = 1
        while record is not None:
            left = 32768 - len(out) % 32768
            if left < 7:
                out += bytes(left)
                left = 32768
            part, rest = record[: left - 7], record[left - 7 :]
            now = (1 if kind == 1 else 4) if not rest else (2 if kind == 1 else 3)
            out += struct.pack("<IHB", 0, len(part), now) + part
            record, kind = rest or None, 0  # type: ignore[assignment]  # None ends the loop
    path.write_bytes(bytes(out)[: len(out) - cut])
    return path
