"""Atlas Ledger: a provenance ledger for reinforcement-learning data and checkpoints."""
