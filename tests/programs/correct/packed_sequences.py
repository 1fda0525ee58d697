"""Lengths belong on the CPU, and stay there while everything else moves."""
import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence, pad_sequence


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(20, 6)
        self.rnn = nn.GRU(6, 10, batch_first=True)

    def forward(self, tokens, lengths):
        packed = pack_padded_sequence(self.embed(tokens), lengths, batch_first=True, enforce_sorted=False)
        output, last = self.rnn(packed)
        padded, out_lengths = pad_packed_sequence(output, batch_first=True)
        assert out_lengths.device.type == "cpu"
        mask = torch.arange(padded.size(1), device=padded.device)[None] < lengths.to(padded.device)[:, None]
        return (padded * mask.unsqueeze(-1)).sum(1) / lengths.to(padded.device)[:, None], last


torch.manual_seed(0)
device = "cuda"
sentences = [torch.randint(0, 20, (n,)) for n in (4, 7, 2, 5)]
lengths = torch.tensor([len(s) for s in sentences])
encoder = Encoder().to(device)
head = nn.Linear(10, 2).to(device)
optimizer = torch.optim.Adam([*encoder.parameters(), *head.parameters()], lr=0.01)
for _ in range(3):
    pooled, last = encoder(pad_sequence(sentences, batch_first=True).to(device), lengths)
    loss = nn.functional.cross_entropy(head(pooled), torch.tensor([0, 1, 0, 1], device=device))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print("%.3f" % loss.item(), last.shape)
