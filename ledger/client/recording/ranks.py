"""Which of many processes this one is, by what its launcher put into the environment. Nothing is imported to ask."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

_VARIABLES: Final = (
    "RANK",  # torchrun, accelerate, deepspeed
    "SLURM_PROCID",
    "OMPI_COMM_WORLD_RANK",
    "PMIX_RANK",
    "PMI_RANK",
    "MV2_COMM_WORLD_RANK",
    "JSM_NAMESPACE_RANK",
    "HOROVOD_RANK",
)


def rank_of(environment: Mapping[str, str]) -> int:
    """The first rank that the environment names; 0 if it names none."""
    for name in _VARIABLES:
        value = environment.get(name, "").strip()
        if value.isascii() and value.isdigit():
            return int(value)
    return 0
