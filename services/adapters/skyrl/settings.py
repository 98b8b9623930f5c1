"""A trainer's configuration, whichever form it has: OmegaConf's, a tree of dataclasses, or plain mappings."""

from __future__ import annotations

import copy
import dataclasses
import sys
from collections.abc import Mapping
from typing import Any


def setting(config: Any, path: str) -> Any:
    """What stands at a dotted path; None where nothing does."""
    value = config
    for name in path.split("."):
        if value is None:
            return None
        try:
            value = value.get(name) if isinstance(value, Mapping) else getattr(value, name, None)
        except Exception:  # noqa: BLE001  # OmegaConf raises errors of its own for what is required and not given
            return None
    return value


def snapshot(config: Any) -> Mapping[str, Any]:
    """A copy that later changes leave alone."""
    omegaconf = sys.modules.get("omegaconf")  # whoever has such a configuration has imported it
    if omegaconf is not None and omegaconf.OmegaConf.is_config(config):
        plain: Mapping[str, Any] = omegaconf.OmegaConf.to_container(config, resolve=True, throw_on_missing=False)
        return plain
    if dataclasses.is_dataclass(config) and not isinstance(config, type):
        return dataclasses.asdict(config)
    copied = copy.deepcopy(config)
    return copied if isinstance(copied, Mapping) else dict(vars(copied))
