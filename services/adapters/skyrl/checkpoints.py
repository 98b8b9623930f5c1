"""What a checkpoint that SkyRL just saved can restore, by the names of its files. Nothing is opened.

    global_step_N/  policy/ critic/  trainer_state.pt  data.pt  fully_async_state.pt | data_consumption_state.pt …

The trainers save the state of the data loader last, and only warn where that fails: its file is looked for.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Final

_FOLDER: Final = re.compile(r"global_step_(\d{1,15})", re.ASCII)
_RANKED: Final = re.compile(r"(model|optim|extra_state)_world_size_(\d{1,6})_rank_\d{1,6}\.pt", re.ASCII)
_DATA: Final = ("data.pt", "data_consumption_state.pt", "fully_async_state.pt")


def is_remote(place: str) -> bool:
    """Whether it lies in an object store, where nothing is read."""
    return "://" in place


def label_of(place: str) -> int | None:
    """The number in the name of a checkpoint's folder."""
    match = _FOLDER.fullmatch(place.rstrip("/").rpartition("/")[2])
    return None if match is None else int(match[1])


def labels_in(folder: str) -> frozenset[int]:
    """The numbers of the checkpoints in a folder."""
    if is_remote(folder) or not Path(folder).is_dir():
        return frozenset()
    return frozenset(label for path in Path(folder).iterdir() if (label := label_of(path.name)) is not None)


def looked_at(folder: Path) -> dict[str, Any]:
    """Fields of `checkpoint.committed`."""
    policy = folder / "policy"
    names = {path.name for path in policy.rglob("*") if path.is_file()} if policy.is_dir() else set()
    ranked = [match for name in names if (match := _RANKED.fullmatch(name))]
    data_state = any((folder / name).is_file() for name in _DATA)
    if not ranked:
        sharded = any(name.endswith(".distcp") for name in names)
        kind = "other" if not sharded else "megatron_torch_dist" if "common.pt" in names else "torch_dcp"
        return {"format": kind, "contents": {"weights": sharded or None, "data_state": data_state}}
    kinds = {match[1] for match in ranked}
    extra = "extra_state" in kinds
    return {
        "format": "fsdp_shards",
        "world_size": int(ranked[0][2]),
        "contents": {
            "weights": "model" in kinds,
            "optimizer": "optim" in kinds,
            "scheduler": extra,
            "rng": extra,
            "data_state": data_state,
        },
    }
