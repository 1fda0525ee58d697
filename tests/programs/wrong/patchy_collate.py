"""Sentences of different lengths; the collate function pads only when it has to."""

import torch
from torch import nn
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader

DEVICE = torch.device("cuda", 0)


def collate(sentences):
    lengths = {len(s) for s in sentences}
    if len(lengths) == 1:
        return torch.stack(sentences).to(DEVICE)
    return pad_sequence(sentences, batch_first=True)  # BUG: inconsistent-source|batch-not-moved culprit=batch|tokens|collate
    # FIX: return pad_sequence(sentences, batch_first=True).to(DEVICE)


class LanguageModel(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(30, 12)
        self.decode = nn.Linear(12, 30)

    def forward(self, tokens):
        return self.decode(self.embed(tokens))  # RAISES: 1


torch.manual_seed(0)
sentences = [torch.randint(1, 30, (7,)) for _ in range(8)] + [torch.randint(1, 30, (3 + i,)) for i in range(4)]
model = LanguageModel().to(DEVICE)
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)

for step, batch in enumerate(DataLoader(sentences, batch_size=4, collate_fn=collate)):  # ALSO: 1
    logits = model(batch[:, :-1])
    loss = nn.functional.cross_entropy(logits.flatten(0, 1), batch[:, 1:].flatten())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(step, f"{loss.item():.4f}")
