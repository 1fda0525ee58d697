# compare: close
# devices: 1
"""fused=True, foreach=True, foreach=False and capturable: every way of one optimizer ends at the same parameters."""

import torch
from torch import nn

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
x = torch.linspace(-1, 1, 160).view(20, 8).to(device)
y = x.sum(dim=1, keepdim=True).sin()


def train(optimizer_class, **options):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 1)).to(device)
    optimizer = optimizer_class(model.parameters(), **options)
    for _ in range(6):
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
    return torch.cat([p.detach().flatten() for p in model.parameters()]), loss.item()


cases = [
    (torch.optim.Adam, dict(lr=1e-2)), (torch.optim.Adam, dict(lr=1e-2, amsgrad=True, weight_decay=0.01)),
    (torch.optim.AdamW, dict(lr=1e-2, weight_decay=0.05)), (torch.optim.SGD, dict(lr=0.05)),
    (torch.optim.SGD, dict(lr=0.05, momentum=0.9, nesterov=True)), (torch.optim.Adagrad, dict(lr=0.05)),
]
for optimizer_class, options in cases:
    expected, loss = train(optimizer_class, foreach=False, **options)
    print(f"{optimizer_class.__name__} {loss:.6f}")
    ways = [dict(foreach=True), dict(fused=True)]
    if optimizer_class is torch.optim.Adagrad and device.type == "cuda":
        ways = ways[:1]  # PyTorch has no fused Adagrad for CUDA
    if device.type == "cuda" and optimizer_class in (torch.optim.Adam, torch.optim.AdamW):
        ways += [dict(capturable=True), dict(fused=True, capturable=True), dict(lr=torch.tensor(options["lr"]), fused=True)]
    for way in ways:
        actual, _ = train(optimizer_class, **{**options, **way})
        torch.testing.assert_close(actual, expected, rtol=1e-4, atol=1e-6, msg=lambda m: f"{optimizer_class.__name__} {way}: {m}")
        assert actual.device.type == device.type

print("all ways agree")
