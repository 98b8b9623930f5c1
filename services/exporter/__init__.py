"""From a checkpoint to a model that others can load: converted, checked, signed, published, and recorded.

    checkpoints     a checkpoint's folder: its parts, its step, whose run it is, its digest
    pickles         the one pickle in a save of torch, read without running anything
    saves           the tensors of a save, one at a time
    architectures   which tensors the model of a configuration has
    selections      which of a save's tensors those are, and what is left out
    side_files      configuration and tokenizer, as they go beside the weights
    weights         the tensors as they are written, and compared with what was written
    exporting       all of it in order: nothing appears at the place unless everything held
    signatures      an OpenSSF signature of the result
    provenance      what the ledger is told

The checkpoint is read and never touched: its digest is taken before and after. Pickles are hashed, and not loaded
unless told so.
"""
