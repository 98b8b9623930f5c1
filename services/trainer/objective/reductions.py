"""How the losses of tokens become the loss of a mini-batch: by one weight a token.

A reduction that is computed over each micro-batch and then averaged is another objective for every micro-batch size;
with one sequence a micro-batch, `token_mean` and `sequence_mean` are even the same number. Here the numbers of the
whole mini-batch, over all processes, are known before its first forward pass. Each token gets the weight with which its
loss enters the mini-batch's, and all that is left to do is to add:

    token_mean                       1 / tokens of the mini-batch
    sequence_mean                    1 / tokens of its sequence / sequences of the mini-batch
    seq_mean_token_sum_norm          1 / the maximum length / sequences of the mini-batch
    seq_mean_token_sum_norm_global   1 / the maximum length / sequences of the mini-batch whose advantage is not 0

So the sum over micro-batches and processes is the mini-batch's loss, and its gradient the sum of their gradients,
however they are cut. FSDP and DDP do not add the gradients of processes but average them: each process multiplies what
it goes backward from by the number of processes. Micro-batches are added by going backward from each before the
optimizer's step; nothing is divided by how many there were.

A sequence without a token in the loss counts as a sequence with the loss 0, as SkyRL counts it.
"""

from __future__ import annotations

import torch
from torch import Tensor

from services.trainer.objective.batches import MiniBatch
from services.trainer.settings import Reduction


def token_weights(reduction: Reduction, mask: Tensor, mini: MiniBatch, max_seq_len: int) -> Tensor:
    """The weight of each token's loss, [sequences, tokens]; 0 where the mask is 0. Rows are whole sequences."""
    inside = mask.ne(0).to(torch.float64)
    if reduction == "token_mean":
        return inside / max(mini.tokens, 1)
    if reduction == "sequence_mean":
        return sequence_mean_weights(mask, mini)
    sequences = mini.active if reduction == "seq_mean_token_sum_norm_global" else mini.sequences
    return inside / (max(sequences, 1) * max_seq_len)


def sequence_mean_weights(mask: Tensor, mini: MiniBatch) -> Tensor:
    """Of a mean over sequences of the mean over their tokens."""
    inside = mask.ne(0).to(torch.float64)
    return inside / inside.sum(dim=1, keepdim=True).clamp(min=1) / max(mini.sequences, 1)


def undo_averaging(loss: Tensor, world_size: int) -> Tensor:
    """What a process goes backward from, when the mean of the gradients over processes is taken afterwards."""
    return loss * world_size
