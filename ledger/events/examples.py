"""Stored examples: one payload a type and version, kept as bytes.

They are what old logs hold. An example is never edited: a payload of another shape is a new version with its own.
All tell of one made-up source, `Example:word-problems`, and fill every field.
"""

from __future__ import annotations

from importlib.resources import files


def example(type_: str, version: int) -> bytes:
    """The stored example of a type's version.

    Raises:
        FileNotFoundError: if there is none; every registered type has one.
    """
    return files("ledger.events").joinpath("examples", f"{type_}.v{version}.json").read_bytes()
