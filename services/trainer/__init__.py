"""A small and exact trainer: RLOO on verifiable tasks, whose provenance is complete by construction.

    settings     what a run is, read from a TOML file and checked before anything starts
    objective/   the formulas, pure: advantages, losses, reductions, importance weights, and their identity
    tasks/       tasks with verifiers, each pinned by a revision
    models       a model and its tokenizer: built in code, from a folder, or from GGUF
    rollouts/    engines that sample: transformers in process, vLLM in process, an OpenAI-compatible server
    checkpoints  torch.distributed.checkpoint, written whole or not at all, and read back with all state
    training     the loop
    provenance   what the loop tells the ledger

Only this package, the exporter, the reviewer and the adapters may import torch, transformers or vllm.
"""
