"""What a script runs under some roots: its parsed definitions with what they mention, as digests that compare.

The hash of a whole file moves with unrelated code. This looks at the definitions that the roots reach, and takes each
in the encoding of `ledger.rules.digest`: comments, format, docstrings and the Python version change nothing, a changed
constant does. Nothing is run or imported. Where parsing cannot tell what is reached, more is taken and never less:

- a name that is mentioned, or declared global, brings all that binds it, whatever else bears it (a local, say);
- an attribute brings every method of that name; a method brings its class's own statements and special methods, and a
  class that is mentioned comes whole;
- a module-level statement that may do something (a call, an assignment to what is no plain name, `if`, `try`, …) is
  always in, with what it mentions, and so is the order of such statements and assignments;
- an import is in if what it binds is mentioned, or if nothing in the script mentions it: it is there for its effect;
- code that looks names up (`globals`, `exec`, `getattr` of a computed name, …) brings the whole script, and code that
  reads `__doc__` the docstrings.

Left out are the block of `if __name__ == "__main__"`, unless it binds a name that is reached, and the code of imports.
"""

from __future__ import annotations

import ast
import copy
import hashlib
import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from ledger.client.definitions import (
    DOCUMENTED,
    FUNCTIONS,
    Described,
    Quiet,
    bound_names,
    every,
    imported,
    is_main,
    mentions,
    parse,
    plainly_assigned,
)
from ledger.core.errors import NotFound
from ledger.events.attestations import ChangeValidation, ComparedDefinition, ExecutionImplementation
from ledger.rules.digest import encoded

ENCODING: Final = "ledger-python-definitions/1"
"""Names how definitions are chosen and written to be hashed. Digests under another one do not compare."""
MODULE, MAIN, IMPORTS, DOCSTRINGS = "<module>", "<main>", "<imports>", "<docstrings>"
"""What is compared and is no definition of its own: statements and their order, the main block, imports, docstrings."""

_LOOKS_UP: Final = frozenset({"eval", "exec", "globals", "locals", "vars"})
_NAMED_IN_ERRORS: Final = 40


@dataclass(frozen=True)
class Closure:
    """What the roots of a script reach."""

    roots: tuple[str, ...]
    definitions: Mapping[str, str]
    """SHA-256 by name."""
    sha256: str
    """Over the definitions."""


def closure(source: str | bytes, roots: Iterable[str], *, script: str = "the script") -> Closure:
    """What the roots reach: names of functions, classes and variables, and methods as `Class.method`.

    Raises:
        InvalidInput: reason INVALID_FILE, if the source cannot be parsed or hides names behind a star import.
        NotFound: if a root is not there; the remedy says what is.
    """
    found = _Script(parse(source, script), script)
    roots = tuple(dict.fromkeys(roots))
    definitions = dict(sorted(found.definitions(roots).items()))
    return Closure(roots, definitions, _sha256([ENCODING, definitions]))


def compare(
    old: bytes, new: bytes, roots: Iterable[str], *, script: str, validation: ChangeValidation | None = None
) -> ExecutionImplementation:
    """The roots of two versions of a script, definition by definition.

    Raises:
        LedgerError: as `closure`, for either version.
    """
    roots = tuple(roots)
    before, after = (closure(text, roots, script=f"{side} {script}") for side, text in (("old", old), ("new", new)))
    names = sorted(before.definitions.keys() | after.definitions.keys())
    return ExecutionImplementation(
        script=script,
        original_sha256=hashlib.sha256(old).hexdigest(),
        executed_sha256=hashlib.sha256(new).hexdigest(),
        roots=list(before.roots),
        definitions=[
            ComparedDefinition(
                name=name, original_sha256=before.definitions.get(name), executed_sha256=after.definitions.get(name)
            )
            for name in names
        ],
        original_closure_sha256=before.sha256,
        executed_closure_sha256=after.sha256,
        encoding=ENCODING,
        validation=validation,
    )


class _Script:
    """A parsed script, cut into named parts."""

    def __init__(self, tree: ast.Module, script: str) -> None:
        self._tree = tree
        self._script = script
        self._parts: defaultdict[str, list[ast.AST]] = defaultdict(list)
        self._binders: defaultdict[str, list[str]] = defaultdict(list)
        """By a name, the parts that give it its value."""
        self._methods: defaultdict[str, list[str]] = defaultdict(list)
        self._imports: defaultdict[str, list[Described]] = defaultdict(list)
        self._always: list[str] = []
        self._steps: list[tuple[ast.stmt, list[str]]] = []
        """Statements whose order counts, with the names of the parts that they are; none: they are of MODULE."""
        self._quiet = Quiet(tree)
        for statement in tree.body:
            self._cut(statement)
        for name, nodes in list(self._parts.items()):
            for node in every(nodes):
                if isinstance(node, ast.Global):
                    self._bind(node.names, name)

    def definitions(self, roots: Sequence[str]) -> dict[str, str]:
        """The digest of everything that the roots reach."""
        names, mentioned, attributes = self._reached(roots)
        found = {name: _sha256(encoded(self._parts[name])) for name in names if name != MODULE}
        steps = [(statement, parts) for statement, parts in self._steps if not parts or names.intersection(parts)]
        if self._always or _bound_twice(steps):
            found[MODULE] = _sha256([sorted(parts) or encoded(statement) for statement, parts in steps])
        imports = self._imported(mentioned)
        if imports:
            found[IMPORTS] = _sha256(imports)
        if "__doc__" in mentioned | attributes:
            found[DOCSTRINGS] = _sha256(self._docstrings(names))
        return found

    def _cut(self, statement: ast.stmt) -> None:
        match statement:
            case ast.Import() | ast.ImportFrom():
                for name, described in imported(statement, self._script):
                    self._imports[name].append(described)
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                self._add(statement, [statement.name])
            case ast.ClassDef():
                self._add_class(statement)
            case ast.If(orelse=[]) if is_main(statement.test):
                self._parts[MAIN].append(statement)
                self._bind(bound_names([statement]), MAIN)
            case ast.Expr(value=ast.Constant()) | ast.Pass():
                pass
            case _ if names := plainly_assigned(statement):
                self._add(statement, names)
            case _:
                self._parts[MODULE].append(statement)
                self._steps.append((statement, []))
                self._bind(bound_names([statement]), MODULE)
                self._always.append(MODULE)

    def _add(self, statement: ast.stmt, names: list[str]) -> None:
        loud = self._quiet.disturbs(statement)
        for name in names:
            self._parts[name].append(statement)
            self._bind([name], name)
        if loud:
            self._always += names
        if loud or not isinstance(statement, FUNCTIONS):
            self._steps.append((statement, names))

    def _add_class(self, statement: ast.ClassDef) -> None:
        own = copy.copy(statement)
        own.body = [inner for inner in statement.body if not isinstance(inner, FUNCTIONS)]
        self._parts[statement.name].append(own)
        parts = [statement.name]
        for method in statement.body:
            if isinstance(method, FUNCTIONS):
                parts.append(f"{statement.name}.{method.name}")
                self._parts[parts[-1]].append(method)
                self._methods[method.name].append(parts[-1])
        for part in parts:
            self._bind([statement.name], part)
        if self._quiet.disturbs(statement):
            self._always += parts
            self._steps.append((statement, parts))

    def _bind(self, names: Iterable[str], part: str) -> None:
        for name in names:
            if part not in self._binders[name]:
                self._binders[name].append(part)

    def _reached(self, roots: Sequence[str]) -> tuple[set[str], set[str], set[str]]:
        """The names of the parts that are reached, and the names and attributes that they mention."""
        waiting = [*self._always, *(part for root in roots for part in self._root(root))]
        names, mentioned, attributes = set[str](), set[str](), set[str]()
        while waiting:
            name = waiting.pop()
            if name in names:
                continue
            names.add(name)
            new, new_attributes = mentions(self._parts[name])
            mentioned |= new
            attributes |= new_attributes
            if new & _LOOKS_UP or "modules" in new_attributes:
                waiting += self._parts
            waiting += (part for one in new for part in self._binders.get(one, ()))
            waiting += (part for one in new_attributes for part in self._methods.get(one, ()))
            waiting += self._beside(name)
        return names, mentioned, attributes

    def _beside(self, name: str) -> Iterator[str]:
        """With a method or its class's own statements come the special methods, which no name calls."""
        owner, _, _ = name.partition(".")
        if owner in self._parts:
            yield owner
            yield from (part for part in self._parts if part.startswith(f"{owner}.__") and part.endswith("__"))

    def _root(self, root: str) -> list[str]:
        found = [root] if "." in root and root in self._parts else self._binders.get(root)
        if found:
            return found
        there = [*self._binders, *(part for part in self._parts if "." in part)]
        listed = ", ".join(sorted(there)[:_NAMED_IN_ERRORS]) or "nothing"
        more = f" and {len(there) - _NAMED_IN_ERRORS} more" if len(there) > _NAMED_IN_ERRORS else ""
        raise NotFound(
            f"{self._script} defines no {root!r}", remedy=f"Name roots that it defines: it has {listed}{more}."
        )

    def _imported(self, mentioned: set[str]) -> list[tuple[str, list[Described]]]:
        everywhere, _ = mentions([self._tree])
        return sorted(
            (name, described)
            for name, described in self._imports.items()
            if name in mentioned or name not in everywhere or described[0][1] == "__future__"
        )

    def _docstrings(self, names: Iterable[str]) -> list[str | None]:
        nodes = [self._tree, *every(node for name in sorted(names) for node in self._parts[name])]
        documented = (node for node in nodes if isinstance(node, (ast.Module, *DOCUMENTED)))
        return [ast.get_docstring(node, clean=False) for node in documented]


def _bound_twice(steps: Iterable[tuple[ast.stmt, list[str]]]) -> bool:
    names = [name for _, parts in steps for name in parts]
    return len(set(names)) < len(names)


def _sha256(value: object) -> str:
    text = json.dumps(value, sort_keys=True, ensure_ascii=True, separators=(",", ":"))
    return hashlib.sha256(text.encode("ascii")).hexdigest()
