"""The index of a sharded model: in which file each tensor is, and how many bytes they have in all."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Any, Final

from ledger.client.exports.headers import unique
from ledger.client.exports.places import Place, is_bare_name
from ledger.core.errors import InvalidInput, NotFound
from ledger.core.strictjson import MAX_INT

INDEX: Final = "model.safetensors.index.json"
SINGLE: Final = "model.safetensors"
MAX_INDEX: Final = 200 << 20
"""Bytes; of a longer index only as many are read, so that it does not parse."""
_NUMBERED: Final = re.compile(r"model-(\d{5,6})-of-(\d{5,6})\.safetensors", re.ASCII)


@dataclass(frozen=True)
class Index:
    """What the index says, and what is wrong with it."""

    is_there: bool
    weight_map: dict[str, str] | None = None
    """The file of each tensor; None: there is no index that can be read."""
    total_size: int | None = None
    fault: str | None = None


def read_index(place: Place, names: Collection[str]) -> Index:
    """Reads the index of a place that holds these names.

    Raises:
        LedgerError: if the place cannot be read.
    """
    if INDEX not in names:
        return Index(is_there=False, fault="there is no index, and more than one file that it would name")
    try:
        said = json.loads(place.read(INDEX, 0, MAX_INDEX).decode(), object_pairs_hook=unique)
        weight_map, total = _parsed(said)
    except (ValueError, RecursionError) as error:
        return Index(is_there=True, fault=f"the index cannot be read: {error}")
    except (InvalidInput, NotFound) as error:
        return Index(is_there=True, fault=f"the index cannot be read: {error.message}")
    fault = None
    if not all(map(is_bare_name, set(weight_map.values()))):
        fault = "the index names a file outside the folder"
    elif not weight_map:
        fault = "the index names no tensor"
    return Index(is_there=True, weight_map=weight_map, total_size=total, fault=fault)


def count_in_names(names: Iterable[str]) -> int | None:
    """The N that all names of numbered shards agree on."""
    found = {int(m[2]) if (m := _NUMBERED.fullmatch(name)) else None for name in names}
    return found.pop() if len(found) == 1 else None


def _parsed(said: Any) -> tuple[dict[str, str], int | None]:
    weight_map = said.get("weight_map") if isinstance(said, dict) else None
    if not isinstance(weight_map, dict) or not all(isinstance(v, str) for v in weight_map.values()):
        raise ValueError("it has no weight_map of names")
    metadata = said.get("metadata")
    total = metadata.get("total_size") if isinstance(metadata, dict) else None
    if isinstance(total, float) and total.is_integer():
        total = int(total)  # some writers sum in floating point
    return weight_map, total if type(total) is int and 0 <= total <= MAX_INT else None
