"""SkyRL's own formulas, imported without what the whole of it needs.

The older package imports as it is. Of the newer one only single modules do: it is written for Python 3.12 and for Ray,
so that packages without content stand in for its parents, and a decorator that does nothing for Ray's.
"""

from __future__ import annotations

import importlib
import importlib.machinery
import importlib.metadata
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

PARENTS = ("skyrl", "skyrl.train", "skyrl.backends", "skyrl.backends.skyrl_train", "skyrl.backends.skyrl_train.utils")
UTILS = "skyrl.backends.skyrl_train.utils"


def older() -> ModuleType:
    """skyrl_train.utils.ppo_utils."""
    return importlib.import_module("skyrl_train.utils.ppo_utils")


def newer() -> SimpleNamespace:
    """The modules ppo_utils and off_policy_correction_utils of skyrl."""
    with _stand_ins():
        return SimpleNamespace(
            ppo=importlib.import_module(f"{UTILS}.ppo_utils"),
            correction=importlib.import_module(f"{UTILS}.off_policy_correction_utils"),
        )


@contextmanager
def _stand_ins() -> Iterator[None]:
    before = dict(sys.modules)
    root = Path(str(importlib.metadata.distribution("skyrl").locate_file("")))
    for name in PARENTS:
        sys.modules[name] = _package(name, root.joinpath(*name.split(".")))
    sys.modules["skyrl.train.config"] = _module("skyrl.train.config", AlgorithmConfig=Any)
    sys.modules["ray"] = _module("ray", remote=lambda thing: thing, is_initialized=lambda: False)
    try:
        yield
    finally:
        for name in set(sys.modules) - set(before):
            if name == "ray" or name.startswith("skyrl."):
                del sys.modules[name]
        sys.modules.update({name: before[name] for name in ("ray", *PARENTS) if name in before})


def _package(name: str, folder: Path) -> ModuleType:
    module = _module(name)
    module.__path__ = [str(folder)]
    return module


def _module(name: str, **content: Any) -> ModuleType:
    module = ModuleType(name)
    module.__spec__ = importlib.machinery.ModuleSpec(name, None, is_package=True)
    vars(module).update(content)
    return module
