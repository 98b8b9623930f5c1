"""Methods of the published SkyRL trainers, taken from their source: importing the packages needs CUDA, reading does not.

What a method calls outside of itself is a stand-in, unless it is given. So the loop is the published one, with its order
of calls, its counting and its arguments, and only what it drives is not there.
"""

from __future__ import annotations

import ast
import asyncio
import builtins
import contextlib
import importlib.metadata
import importlib.util
import os
import sys
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

KNOWN = {
    "asyncio": asyncio,
    "os": os,
    "Timer": lambda *_, **__: contextlib.nullcontext(),
    "ResumeMode": types.SimpleNamespace(NONE="none"),
    "prepare_generator_input": lambda *_: ({"prompts": ["p"]}, ["uid"]),
    "ray": types.SimpleNamespace(get=lambda value: value),
}


def package(name: str) -> Path:
    """Where a distribution's package lies."""
    return Path(str(importlib.metadata.distribution(name).locate_file(name.replace("-", "_"))))


def load(path: Path) -> Any:
    """A module that needs the standard library alone, by its path."""
    spec = importlib.util.spec_from_file_location(f"taken_{path.stem}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look there
    spec.loader.exec_module(module)
    return module


def taken(path: Path, class_name: str, *names: str, **known: Any) -> dict[str, Callable[..., Any]]:
    """Methods of a class, compiled from its source without annotations, each in a world of stand-ins."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    (found,) = [node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == class_name]
    methods = {n.name: n for n in found.body if isinstance(n, (ast.FunctionDef, ast.AsyncFunctionDef))}
    world: dict[str, Any] = {**KNOWN, **known}
    made = {}
    for name in names:
        module = ast.Module([_Plain().visit(methods[name])], type_ignores=[])
        code = compile(ast.fix_missing_locations(module), str(path), "exec")
        for used in _names(code):
            if not hasattr(builtins, used):
                world.setdefault(used, MagicMock(name=used))
        exec(code, world)
        made[name] = world.pop(name)
    return made


class _Plain(ast.NodeTransformer):
    """Leaves out annotations, whose names are not there."""

    def visit_arg(self, node: ast.arg) -> ast.arg:
        node.annotation = None
        return node

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        self.generic_visit(node)
        assert node.value is not None
        return ast.copy_location(ast.Assign([node.target], node.value), node)

    def _function(self, node: Any) -> Any:
        node.returns = None
        node.decorator_list = []
        self.generic_visit(node)
        return node

    visit_FunctionDef = visit_AsyncFunctionDef = _function  # noqa: N815  # ast calls them by these names


def _names(code: types.CodeType) -> set[str]:
    """Every global that a piece of code may ask for, and more."""
    inner = [const for const in code.co_consts if isinstance(const, types.CodeType)]
    return set(code.co_names).union(*map(_names, inner))
