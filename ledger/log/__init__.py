"""The append-only log: gap-free, hashed, idempotent for ever.

A draft goes through `preparing` (checked and hashed), waits for the `sequencer` (placed, in one transaction under the
head lock) and lies in a store (`sqlite`, `postgres`) behind one port (`ports`). `fsck` derives all of it again.
"""
