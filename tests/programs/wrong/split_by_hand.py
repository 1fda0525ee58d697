"""A model split over two GPUs by hand: embedding and encoder on the first, head on the second."""
import torch
from torch import nn


class Encoder(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.attn = nn.MultiheadAttention(dim, 2, batch_first=True)
        self.ff = nn.Sequential(nn.Linear(dim, 2 * dim), nn.ReLU(), nn.Linear(2 * dim, dim))
        self.norm = nn.LayerNorm(dim)

    def forward(self, x):
        return self.norm(x + self.ff(self.attn(x, x, x, need_weights=False)[0]))  # RAISES: 1


class Split(nn.Module):
    def __init__(self, vocab, dim, classes, gpus=("cuda:0", "cuda:1")):
        super().__init__()
        self.gpus = [torch.device(g) for g in gpus]
        self.embed = nn.Embedding(vocab, dim).to(self.gpus[0])
        self.lower = Encoder(dim).to(self.gpus[0])
        self.upper = Encoder(dim).to(self.gpus[1])
        self.head = nn.Linear(dim, classes)  # BUG 2: model-not-moved culprit=net.head.weight|net.head.bias
        # FIX: self.head = nn.Linear(dim, classes).to(self.gpus[1])

    def forward(self, ids):
        h = self.lower(self.embed(ids.to(self.gpus[0])))
        h = self.upper(h)  # BUG 1: handoff-missing culprit=h|x
        # FIX: h = self.upper(h.to(self.gpus[1]))
        return self.head(h.mean(1))  # RAISES: 2


torch.manual_seed(0)
net = Split(vocab=30, dim=8, classes=4)
opt = torch.optim.Adagrad(net.parameters(), lr=0.05)
for step in range(3):
    ids, target = torch.randint(0, 30, (6, 5)), torch.randint(0, 4, (6,))
    loss = nn.functional.cross_entropy(net(ids), target.to("cuda:1"))
    opt.zero_grad()
    loss.backward()
    opt.step()
print("steps", step + 1)
