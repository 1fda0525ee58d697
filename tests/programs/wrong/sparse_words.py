"""Word vectors by skip-grams with sparse gradients; the model was never moved."""

import torch
import torch.nn.functional as F
from torch import nn


class SkipGram(nn.Module):
    def __init__(self, words: int, size: int):
        super().__init__()
        self.centers = nn.Embedding(words, size, sparse=True)
        self.contexts = nn.EmbeddingBag(words, size, mode="mean", sparse=True)

    def forward(self, center, context):
        return (self.centers(center) * self.contexts(context)).sum(1)  # RAISES: 1


gpu = torch.device("cuda")
torch.manual_seed(0)
vectors = SkipGram(40, 6)  # BUG: model-not-moved culprit=vectors.centers.weight
# FIX: vectors = SkipGram(40, 6).to(gpu)
adam = torch.optim.SparseAdam(vectors.parameters(), lr=0.01)
words = torch.arange(64, device=gpu) * 7 % 40
for start in range(0, 32, 8):
    center = words[start : start + 8]
    context = words.unfold(0, 4, 1)[start : start + 8]
    loss = F.softplus(-vectors(center, context)).mean()
    adam.zero_grad()
    loss.backward()
    assert vectors.contexts.weight.grad.is_sparse
    adam.step()
print("trained", bool(torch.isfinite(loss)))
