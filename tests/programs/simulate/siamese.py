# compare: close
# devices: 1
"""Contrastive learning with gradient accumulation: cosine similarity, InfoNCE, frozen layers, a memory bank, k-NN."""

import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(0)
DEVICE = "cuda:0" if torch.cuda.is_available() else "cpu"


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.backbone = nn.Sequential(nn.Conv1d(1, 8, 5, padding=2), nn.PReLU(), nn.AdaptiveAvgPool1d(8), nn.Flatten())
        self.projector = nn.Sequential(nn.Linear(64, 32), nn.Hardswish(), nn.Linear(32, 16))
        self.temperature = nn.Parameter(torch.tensor(0.2))
        self.register_buffer("bank", F.normalize(torch.randn(32, 16), dim=1))
        self.register_buffer("pointer", torch.zeros(1, dtype=torch.long))

    def forward(self, x):
        return F.normalize(self.projector(self.backbone(x)), dim=-1)

    @torch.no_grad()
    def enqueue(self, keys):
        at = int(self.pointer)
        self.bank[at:at + len(keys)] = keys
        self.pointer[0] = (at + len(keys)) % len(self.bank)


def info_nce(q, k, model):
    positive = (q * k).sum(-1, keepdim=True)
    negative = q @ model.bank.clone().T
    logits = torch.cat([positive, negative], dim=1) / model.temperature
    return F.cross_entropy(logits, torch.zeros(len(q), dtype=torch.long, device=q.device))


signals = torch.sin(torch.linspace(0, 6.28, 40) * torch.arange(1, 9).view(-1, 1, 1))
model = Encoder().to(DEVICE)
for parameter in model.backbone[0].parameters():
    parameter.requires_grad = False
optimizer = torch.optim.NAdam(filter(lambda p: p.requires_grad, model.parameters()), lr=2e-3)
ACCUMULATE = 2
for step in range(8):
    x = signals.to(DEVICE)
    one = x + 0.05 * torch.randn(8, 1, 40).to(DEVICE)
    two = torch.roll(x, shifts=step, dims=-1)
    q = model(one)
    with torch.no_grad():
        k = model(two)
    loss = info_nce(q, k, model) / ACCUMULATE
    loss.backward()
    model.enqueue(k)
    if (step + 1) % ACCUMULATE == 0:
        optimizer.step()
        optimizer.zero_grad()
        print(f"step {step} loss {loss.item() * ACCUMULATE:.5f} temperature {model.temperature.item():.5f} pointer {model.pointer.item()}")
assert model.backbone[0].weight.grad is None and model.bank.device == torch.device(DEVICE)

with torch.no_grad():
    embeddings = model(signals.to(DEVICE))
    distances = torch.cdist(embeddings, embeddings)
    distances.fill_diagonal_(float("inf"))
    similar = F.cosine_similarity(embeddings.unsqueeze(0), embeddings.unsqueeze(1), dim=-1)
print("nearest is another", bool((distances.argmin(1).cpu() != torch.arange(8)).all()), f"similarity {similar.mean().item():.4f}")
print("kept", distances.topk(2, largest=False).indices.shape, torch.logsumexp(similar, dim=1).shape)
