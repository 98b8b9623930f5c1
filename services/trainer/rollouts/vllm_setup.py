"""How vLLM has to be set up for training, in the trainer's process as in a server.

- Log-probabilities are those of the distribution that is sampled: after the temperature.
- No defaults are taken from a model's generation configuration.
- Layers are run eagerly, and on a CPU none are packed: packed ones keep old weights through a reload.
- On a CPU no prompt is read in parts: a request with a seed of its own would end the engine.
- Nothing is fetched and nothing is reported.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, Final

from ledger.core.errors import LedgerError

ENVIRONMENT: Final[Mapping[str, str]] = {
    "DO_NOT_TRACK": "1",
    "HF_HUB_OFFLINE": "1",
    "TRANSFORMERS_OFFLINE": "1",
    "VLLM_NO_USAGE_STATS": "1",
}
ON_CPU: Final[Mapping[str, str]] = {
    "VLLM_CPU_KVCACHE_SPACE": "1",  # GiB; left alone it takes a share of all memory
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",  # else it binds the threads of the process to cores
}


def prepare(*, on_cpu: bool) -> None:
    """Sets what must be set before vLLM is imported; what a user has set stays.

    Raises:
        LedgerError: reason EXTRA_MISSING, without vLLM.
    """
    for name, value in {**ENVIRONMENT, **(ON_CPU if on_cpu else {})}.items():
        os.environ.setdefault(name, value)
    try:
        import vllm  # noqa: F401, PLC0415  # of an extra
    except ModuleNotFoundError as error:
        if error.name != "vllm":
            raise
        raise LedgerError(
            "rollouts by vLLM need the package vllm, which is not installed",
            reason="EXTRA_MISSING",
            remedy="Run `pip install 'atlas-ledger[vllm]'` in an environment of the trainer's own, or on a machine "
            'without a GPU `.ci/set-up vllm`; or set `rollouts.engine = "transformers"`.',
            details={"extra": "vllm", "package": "vllm"},
        ) from None
    if on_cpu:
        from vllm import _custom_ops  # noqa: PLC0415

        _custom_ops._supports_onednn = False  # noqa: SLF001  # there is no setting for it


def engine_arguments(*, on_cpu: bool, max_length: int, max_concurrent: int) -> dict[str, Any]:
    """Arguments of vLLM's engine, beside the model and its dtype."""
    cpu = {"enable_chunked_prefill": False, "max_num_batched_tokens": max(max_length, 2048)} if on_cpu else {}
    return {
        "enforce_eager": True,
        "generation_config": "vllm",
        "logprobs_mode": "processed_logprobs",
        "max_model_len": max_length,
        "max_num_seqs": max_concurrent,
        **cpu,
    }
