"""The embedding lives on the CPU; its output is moved by hand and gradients flow back."""
import torch
from torch import nn

torch.manual_seed(0)
embedding = nn.EmbeddingBag(100, 8, mode="mean")
tower = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 1)).to("cuda")
optimizer = torch.optim.SGD([{"params": embedding.parameters(), "lr": 1.0}, {"params": tower.parameters()}], lr=0.1)
bags = torch.tensor([1, 5, 9, 9, 30, 2, 2])
offsets = torch.tensor([0, 3, 5])
clicks = torch.tensor([1.0, 0.0, 1.0])
for _ in range(3):
    logits = tower(embedding(bags, offsets).to("cuda")).squeeze(1)
    loss = nn.functional.binary_cross_entropy_with_logits(logits.cpu(), clicks)  # the loss on the CPU, on purpose
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(round(loss.item(), 4), embedding.weight.grad.device, tower[0].weight.grad.device)
