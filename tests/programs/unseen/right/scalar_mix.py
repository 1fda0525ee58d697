"""Zero-dimensional CPU tensors may meet CUDA tensors."""
import torch
from torch import nn

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
torch.manual_seed(0)

temperature = torch.tensor(0.7)           # stays on the host
eps = torch.tensor(1e-6)
gain = torch.linspace(0.5, 1.5, 5)

x = torch.sin(torch.arange(20.0, device=device)).view(5, 4)
logits = x / temperature
prob = logits.softmax(-1) + eps
entropy = -(prob * prob.log()).sum(-1)

acc = torch.zeros(())
for g, row in zip(gain, x):               # iterating a 1-d tensor gives 0-d ones
    scaled = row * g
    acc += scaled.sum().cpu()

clipped = torch.where(x > 0, x, torch.tensor(-1.0))
filled = x.masked_fill(x < 0, temperature.item())
x[0, 0] = temperature                      # copy of a scalar
x[:, 1] = torch.arange(5.0)                # slice assignment copies across devices
print(f"{entropy.mean().item():.4f} {acc.item():.4f} {clipped.sum().item():.4f} {filled.mean().item():.4f} {x.sum().item():.4f}")
