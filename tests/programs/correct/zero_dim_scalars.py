"""Zero-dimensional CPU tensors count as numbers."""
import math

import torch

x = torch.linspace(-1, 1, 8, device="cuda:0")
temperature = torch.tensor(0.5)
bias = torch.tensor(2)
print((x / temperature).sum().item(), (bias + x).device, torch.mul(x, temperature).dtype)
x = x * temperature + bias - torch.tensor(math.pi)
x += temperature
x.mul_(torch.tensor(2.0))
y = torch.where(x > torch.tensor(0.0), x, torch.tensor(0.0))
print(y.device, round(y.sum().item(), 4), (x ** torch.tensor(2.0)).device.type)
print(torch.pow(torch.tensor(2.0), x).device, torch.maximum(x, x.mean()).device, (x > temperature).sum().item())
loss = torch.tensor(0.0)
for part in x.chunk(4):
    loss = loss + part.square().sum()  # the first sum takes it to the device
print(loss.device, round(float(loss), 3))
