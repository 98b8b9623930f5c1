"""A vLLM server for the engine `openai`, set up as training needs it:

    python -m services.trainer.rollouts.serving --model FOLDER --max-model-len 2048 --port 8000

Every argument is vLLM's; what is said here comes before it, so that it can be overruled. The server loads weights for
whoever reaches it: it listens on this machine alone, unless `--host` says otherwise.
"""

from __future__ import annotations

import os
import sys
from importlib import import_module

from services.trainer.rollouts.vllm_setup import prepare


def arguments(given: list[str], *, on_cpu: bool) -> list[str]:
    """Those of vLLM's server."""
    ours = ["--host", "127.0.0.1", "--enforce-eager", "--generation-config", "vllm"]
    ours += ["--logprobs-mode", "processed_logprobs"]
    return [*ours, *(["--no-enable-chunked-prefill"] if on_cpu else []), *given]


def on_cpu() -> bool:
    import torch  # noqa: PLC0415  # of an extra

    return not torch.cuda.is_available()


# At import, and not below: the engine is a process of the server's that imports this module again, and must have the
# same settings before it imports vLLM.
os.environ.setdefault("VLLM_SERVER_DEV_MODE", "1")
prepare(on_cpu=on_cpu())


def main(given: list[str]) -> None:
    """Serves until it is stopped."""
    sys.argv[1:] = arguments(given, on_cpu=on_cpu())
    import_module("vllm.entrypoints.launchers.api_server.entry").main()


if __name__ == "__main__":
    main(sys.argv[1:])
