"""One statement of a script at a time: which names it binds and mentions, and whether it only defines.

Nothing is run or imported: what cannot be told from the syntax tree counts as more than a definition.
"""

from __future__ import annotations

import ast
import warnings
from collections.abc import Iterable, Iterator
from typing import Final

from ledger.core.errors import InvalidInput, Problem

FUNCTIONS: Final = (ast.FunctionDef, ast.AsyncFunctionDef)
DOCUMENTED: Final = (*FUNCTIONS, ast.ClassDef)
Described = list[str | int | None]
"""What an import names."""

_QUIET_BUILTINS: Final = frozenset(
    {"bool", "bytes", "classmethod", "dict", "float", "frozenset", "int", "list"}
    | {"property", "range", "set", "staticmethod", "str", "tuple"}
)
_QUIET_MODULES: Final = frozenset(
    {"abc", "collections", "contextlib", "dataclasses", "enum", "functools", "pathlib", "re", "typing"}
)
"""Calling these, or what these modules give, makes a value and does nothing else."""
_ACCESSORS: Final = frozenset({"getter", "setter", "deleter"})
"""Of a property, as decorators."""


class Quiet:
    """Which statements only define: what they call makes a value, and does nothing else."""

    def __init__(self, tree: ast.Module) -> None:
        self._modules, self._names = set[str](), set[str]()
        imports = [node for node in tree.body if isinstance(node, (ast.Import, ast.ImportFrom))]
        for node in imports:
            for alias in node.names:
                bound = alias.asname or alias.name
                if isinstance(node, ast.Import) and alias.name in _QUIET_MODULES:
                    self._modules.add(bound)
                elif isinstance(node, ast.ImportFrom) and not node.level and node.module in _QUIET_MODULES:
                    self._names.add(bound)
        elsewhere = bound_names([node for node in tree.body if node not in imports])
        self._modules -= elsewhere
        self._names = (self._names | _QUIET_BUILTINS) - elsewhere
        functions = (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef))
        self._hooked = any(node.name == "__init_subclass__" for node in functions)

    def disturbs(self, statement: ast.stmt) -> bool:
        """Whether running the statement may do more than give names their values."""
        return any(self._is_loud(node) for node in _run_at_once(statement))

    def _is_loud(self, node: ast.AST) -> bool:
        match node:
            case ast.Call():
                return not self._is_quiet(node.func)
            case ast.ClassDef():
                loud = any(not self._is_quiet(_callee(d)) for d in node.decorator_list)
                return loud or bool(node.keywords) or (self._hooked and bool(node.bases))
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                return any(not self._is_quiet(_callee(d)) for d in node.decorator_list)
            case ast.Attribute(ctx=ast.Store()) | ast.Subscript(ctx=ast.Store()):
                return True
            case ast.Expr(value=value):
                return not isinstance(value, ast.Constant)
        return isinstance(node, (ast.NamedExpr, ast.Await, ast.Delete))

    def _is_quiet(self, callee: ast.expr) -> bool:
        match callee:
            case ast.Name(id=name):
                return name in self._names
            case ast.Attribute(value=ast.Name(id=module), attr=name):
                return module in self._modules or name in _ACCESSORS
        return False


def parse(source: str | bytes, script: str) -> ast.Module:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what the parser finds odd in it is its author's affair
            return ast.parse(source)
    except SyntaxError as error:
        place, message = f"line {error.lineno or 1}, column {error.offset or 1}", error.msg
    except (ValueError, RecursionError, MemoryError) as error:
        place, message = "the whole", str(error) or "it nests too deeply"
    raise _refused(script, "is no Python that can be parsed", place, message)


def _refused(script: str, what: str, place: str, message: str) -> InvalidInput:
    return InvalidInput(
        f"{script} {what}: {place}: {message}",
        reason="INVALID_FILE",
        remedy="Name the script as it ran, in a Python that this one can read.",
        problems=[Problem(place, message)],
    )


def imported(statement: ast.Import | ast.ImportFrom, script: str) -> Iterator[tuple[str, Described]]:
    """By the name that is bound, what is imported as it."""
    for alias in statement.names:
        if alias.name == "*":
            place = f"line {statement.lineno}, column {statement.col_offset + 1}"
            raise _refused(script, "cannot be followed", place, "a star import hides which names it binds")
        if isinstance(statement, ast.Import):
            yield alias.asname or alias.name.partition(".")[0], ["import", alias.name, alias.asname]
        else:
            described: Described = ["from", statement.module, statement.level, alias.name, alias.asname]
            yield alias.asname or alias.name, described


def is_main(test: ast.expr) -> bool:
    match test:
        case ast.Compare(left=left, ops=[ast.Eq()], comparators=[right]):
            sides = [side.id if isinstance(side, ast.Name) else getattr(side, "value", None) for side in (left, right)]
            return "__name__" in sides and "__main__" in sides
    return False


def plainly_assigned(statement: ast.stmt) -> list[str]:
    """The names that an assignment gives values to; none if it is no assignment to names alone."""
    match statement:
        case ast.Assign(targets=targets):
            pass
        case ast.AnnAssign(target=target) | ast.AugAssign(target=target):
            targets = [target]
        case _ if type(statement).__name__ == "TypeAlias":
            targets = [statement.name]  # type: ignore[attr-defined]  # of later versions of Python
        case _:
            return []
    inner = [node for target in targets for node in ast.walk(target)]
    plain = all(isinstance(n, (ast.Name, ast.Tuple, ast.List, ast.Starred, ast.expr_context)) for n in inner)
    return [node.id for node in inner if isinstance(node, ast.Name)] if plain else []


def bound_names(nodes: Iterable[ast.AST]) -> set[str]:
    """Every name that gets a value somewhere in the nodes."""
    found = set[str | None]()
    for node in every(nodes):
        match node:
            case ast.Name(id=name) if not isinstance(node.ctx, ast.Load):
                found.add(name)
            case ast.alias(name=name, asname=other):
                found.add(other or name.partition(".")[0])
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef() | ast.ExceptHandler():
                found.add(node.name)
            case ast.MatchAs() | ast.MatchStar():
                found.add(node.name)
    return {name for name in found if name}


def mentions(nodes: Iterable[ast.AST]) -> tuple[set[str], set[str]]:
    """The names that are read, deleted or declared global, and the attributes."""
    names, attributes = set[str](), set[str]()
    for node in every(nodes):
        match node:
            case ast.Name(id=name) if not isinstance(node.ctx, ast.Store):
                names.add(name)
            case ast.Global():
                names.update(node.names)
            case ast.Attribute(attr=name):
                attributes.add(name)
            case ast.MatchClass():
                attributes.update(node.kwd_attrs)
            case ast.Call(func=ast.Name(id="getattr"), args=[_, ast.Constant(value=str(name)), *_]):
                attributes.add(name)
            case ast.Call(func=ast.Name(id="getattr")):
                names.add("vars")  # the attribute may be any
    return names, attributes


def _run_at_once(node: ast.AST) -> Iterator[ast.AST]:
    """The parts of a statement that run when it does, rather than when what it defines is called."""
    yield node
    children: Iterable[ast.AST] = ast.iter_child_nodes(node)
    if isinstance(node, (*FUNCTIONS, ast.Lambda)):
        defaults = [*node.args.defaults, *filter(None, node.args.kw_defaults)]
        children = [*getattr(node, "decorator_list", ()), *defaults]
    for child in children:
        yield from _run_at_once(child)


def _callee(decorator: ast.expr) -> ast.expr:
    return decorator.func if isinstance(decorator, ast.Call) else decorator


def every(nodes: Iterable[ast.AST]) -> Iterator[ast.AST]:
    """The nodes, and all within them."""
    return (inner for node in nodes for inner in ast.walk(node))
