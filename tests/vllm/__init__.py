"""With vLLM itself, in the environment of `.ci/set-up vllm`: `python -m pytest -m vllm tests/vllm`."""
