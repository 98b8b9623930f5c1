"""What goes beside the weights: the model's configuration, its generation defaults, its tokenizer. Never code.

The files are copied byte for byte, but for what config.json says of the weights themselves: their type, since engines
load by it, and the architecture where the trainer left it out, since they need one.
"""

from __future__ import annotations

import json
from collections.abc import Collection
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Final

from ledger.client.exports.configurations import CONFIG, GENERATION, MAX_CONFIG
from ledger.client.exports.places import Folder
from ledger.client.whole import whole
from ledger.core.errors import InvalidInput, LedgerError
from services.exporter.architectures import Architecture

TOKENIZER: Final = (
    "tokenizer*.json",
    "tokenizer*.model",
    "*.tiktoken",
    "spiece.model",
    "sentencepiece*.model",
    "vocab.json",
    "vocab.txt",
    "merges.txt",
    "special_tokens_map.json",
    "added_tokens.json",
    "chat_template.*",
)
_OTHERS: Final = ("preprocessor_config.json", "processor_config.json", "*processor_config.json")
_DTYPES: Final = ("dtype", "torch_dtype")
"""The names that config.json has for the type of the weights, the new one and the old one."""
_IN_CONFIG: Final = {"F64": "float64", "F32": "float32", "F16": "float16", "BF16": "bfloat16"}


@dataclass(frozen=True)
class SideFiles:
    """Which files, of which folder."""

    folder: Path
    names: tuple[str, ...]

    @property
    def notes(self) -> list[str]:
        """What a reader will miss."""
        told = []
        if GENERATION not in self.names:
            told.append(f"No {GENERATION} goes with it: engines will sample by defaults of their own.")
        if not any(_matches(name, TOKENIZER) for name in self.names):
            told.append("No tokenizer goes with it.")
        return told


def find_side_files(checkpoint: Path | None, base: Path | None) -> SideFiles:
    """The checkpoint's own, else the base's.

    Raises:
        InvalidInput: reason INVALID_FILE, if neither has a config.json.
    """
    for folder in (checkpoint, base):
        if folder is not None and (folder / CONFIG).is_file():
            wanted = (CONFIG, GENERATION, *TOKENIZER, *_OTHERS)
            return SideFiles(folder, tuple(name for name in Folder(folder).names() if _matches(name, wanted)))
    raise InvalidInput(
        f"no {CONFIG} goes with the checkpoint" + ("" if base is None else f", and {base} has none"),
        reason="INVALID_FILE",
        remedy="Name the folder of the model that training began with by --base: its configuration and tokenizer are "
        "taken.",
    )


def copy_side_files(side: SideFiles, to: Path, architecture: Architecture, dtypes: Collection[str]) -> list[str]:
    """Copies them; gives what was changed in config.json, for people.

    Raises:
        LedgerError: if a file cannot be read or written.
    """
    source = Folder(side.folder)
    told: list[str] = []
    for name in side.names:
        content = source.read(name)
        if name == CONFIG:
            content, told = _configured(content, side.folder, architecture, dtypes)
        with whole(to / name) as file:
            file.write(content)
    return told


def _configured(
    content: bytes, folder: Path, architecture: Architecture, dtypes: Collection[str]
) -> tuple[bytes, list[str]]:
    try:
        said: Any = json.loads(content) if len(content) <= MAX_CONFIG else None
    except (ValueError, RecursionError):
        said = None
    if not isinstance(said, dict):
        raise _bad(folder)
    changed = dict(said)
    if not said.get("architectures"):
        changed["architectures"] = [architecture.name]
    floats = {_IN_CONFIG[dtype] for dtype in dtypes if dtype in _IN_CONFIG}
    if len(floats) == 1:
        changed |= {name: next(iter(floats)) for name in _DTYPES if said.get(name) is not None}
    told = [
        f"{CONFIG}: {name} is {json.dumps(value)}, and was {json.dumps(said.get(name))}"
        for name, value in changed.items()
        if said.get(name) != value
    ]
    return (json.dumps(changed, indent=2).encode() + b"\n" if told else content), told


def _matches(name: str, patterns: Collection[str]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)


def _bad(folder: Path) -> LedgerError:
    return InvalidInput(
        f"{folder / CONFIG} is no JSON object",
        reason="INVALID_FILE",
        remedy="Name a folder with the model's own config.json by --base.",
        details={"file": str(folder / CONFIG)},
    )
