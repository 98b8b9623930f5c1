"""Exported models: written shard by shard, published with the index last, and checked by their headers alone.

    headers         one safetensors file's header
    indexes         in which file each tensor is
    configurations  what config.json and generation_config.json say that moves scores
    places          a folder or an object store (`stores`), behind one interface
    weights         all headers at a place, and a tensor's bytes on request
    checks          the nine checks of an export, wherever it lies and whoever made it
    bases           those of them that look at the base model, with `samples` for names that were exchanged
    writing         safetensors shards and their index, from tensors as bytes
    publishing      the order in which files appear
    recorded        what the ledger is told of an export

Nothing here needs torch, and only an object store needs an extra (`objects`).
"""
