"""Embedding and head get one new weight, which no optimizer has. It is made in one line and put in by two others."""

import torch
from torch import nn


class LanguageModel(nn.Module):
    def __init__(self, words):
        super().__init__()
        self.embedding = nn.Embedding(words, 8)
        self.body = nn.Linear(8, 8)
        self.head = nn.Linear(8, words, bias=False)

    def forward(self, tokens):
        return self.head(self.body(self.embedding(tokens)))


torch.manual_seed(0)
model = LanguageModel(20).cuda()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)  # BUG: optimizer-before
# FIX:
shared = nn.Parameter(torch.randn(20, 8, device="cuda"))
model.embedding.weight = shared
model.head.weight = shared
# ADD: optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
for _ in range(2):
    tokens = torch.randint(0, 20, (2, 5), device="cuda")
    nn.functional.cross_entropy(model(tokens).flatten(0, 1), tokens.flatten()).backward()
    optimizer.step()
    optimizer.zero_grad()
