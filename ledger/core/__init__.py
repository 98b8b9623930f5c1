"""Ids, time, strict JSON, the Merkle tree and the error tree: what everything else stands on."""
