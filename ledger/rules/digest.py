"""The identity of a rule set: a digest over its parsed definitions.

Comments, formatting and docstrings do not change it, nor does the Python version that computes it; a changed constant,
name or statement does. So it is not taken over the text, and not over Python's own dump of the tree, which differs from
version to version, but over an encoding of its own:

  - a node is the array of its type's name and its fields by name, in sorted order; what is empty is left out, since
    later versions of Python add fields that are empty in older code;
  - a constant is its type's name and its value; strings are written in ASCII;
  - the text between the fields of a formatted string is one constant, and none where it is empty, since versions of
    Python cut it up differently;
  - bare strings that stand as statements (docstrings), the `u` of old string literals and positions are left out;
  - a package is the object of its modules by path; the digest is SHA-256 over that JSON.

Only the standard library is needed, and the package itself is not imported.
"""

from __future__ import annotations

import ast
import hashlib
import json
from collections.abc import Iterator, Mapping
from importlib.machinery import PathFinder
from pathlib import Path
from typing import Any

Encoded = list[Any]


def definitions_digest(package_name: str) -> str:
    """The digest of every module of an installed package.

    Raises:
        ModuleNotFoundError: if there is no such package.
    """
    return sources_digest(dict(_sources(_folder(package_name))))


def sources_digest(sources: Mapping[str, str]) -> str:
    """The digest of modules given as path → text."""
    modules = {path: encoded(ast.parse(text)) for path, text in sources.items()}
    text = json.dumps(modules, sort_keys=True, ensure_ascii=True, separators=(",", ":"))
    return hashlib.sha256(text.encode("ascii")).hexdigest()


def _folder(package_name: str) -> Path:
    """Where the package lies; found without importing it or its parents."""
    locations: list[str] | None = None
    name = ""
    for part in package_name.split("."):
        name = f"{name}.{part}" if name else part
        spec = PathFinder.find_spec(name, locations)
        if spec is None or not spec.submodule_search_locations:
            raise ModuleNotFoundError(f"there is no package {package_name!r} to take a digest of", name=package_name)
        locations = list(spec.submodule_search_locations)
    assert locations is not None
    return Path(locations[0])


def _sources(folder: Path) -> Iterator[tuple[str, str]]:
    for path in folder.rglob("*.py"):
        yield path.relative_to(folder).as_posix(), path.read_text("utf-8")


def encoded(value: object) -> Encoded:
    """A node, or a list of nodes, as JSON values that do not depend on the version of Python."""
    if isinstance(value, ast.Constant):
        return ["Constant", *_constant(value.value)]
    if isinstance(value, ast.JoinedStr):
        return ["JoinedStr", {"values": [encoded(part) for part in _joined(value.values)]}]
    if isinstance(value, ast.AST):
        fields = {name: encoded(item) for name, item in ast.iter_fields(value)}
        return [type(value).__name__, {name: item for name, item in fields.items() if item}]
    if isinstance(value, list):
        return [encoded(item) for item in value if not _is_docstring(item)]
    return [] if value is None else _constant(value)


def _joined(parts: list[ast.expr]) -> list[ast.expr]:
    """The parts of a formatted string, neighbouring texts as one and without empty ones."""
    joined: list[ast.expr] = []
    for part in parts:
        last = joined[-1] if joined else None
        if isinstance(part, ast.Constant) and isinstance(last, ast.Constant):
            joined[-1] = ast.Constant(str(last.value) + str(part.value))
        elif not (isinstance(part, ast.Constant) and part.value == ""):
            joined.append(part)
    return joined


def _constant(value: object) -> Encoded:
    # A string is written by JSON: repr would ask this Python's own table which characters can be printed.
    return [type(value).__name__, value if isinstance(value, str) else repr(value)]


def _is_docstring(node: object) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
