"""A vocabulary that grows: new rows are a new parameter, tied to the head, and no optimizer has it."""

import torch
from torch import nn


class LanguageModel(nn.Module):
    def __init__(self, words):
        super().__init__()
        self.embedding = nn.Embedding(words, 8)
        self.head = nn.Linear(8, words, bias=False)
        self.tie_weights()

    def tie_weights(self):
        self.head.weight = self.embedding.weight

    def resize(self, words):
        larger = nn.Embedding(words, 8, device=self.embedding.weight.device)
        larger.weight.data[: len(self.embedding.weight)] = self.embedding.weight.data
        self.embedding = larger
        self.tie_weights()

    def forward(self, tokens):
        return self.head(self.embedding(tokens))


torch.manual_seed(0)
model = LanguageModel(20).cuda()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)  # BUG: optimizer-before
# FIX:
model.resize(24)
# ADD: optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
for _ in range(2):
    tokens = torch.randint(0, 24, (2, 5), device="cuda")
    nn.functional.cross_entropy(model(tokens).flatten(0, 1), tokens.flatten()).backward()
    optimizer.step()
    optimizer.zero_grad()
