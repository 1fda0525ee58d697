# compare: close
# devices: 1
"""Every other optimizer PyTorch ships, LBFGS and its closure included, with schedulers and parameter groups."""

import torch
from torch import nn, optim

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
x = torch.linspace(-2, 2, 96).view(24, 4).to(device)
y = x.cos().mean(dim=1, keepdim=True)

makers = {
    "Adadelta": lambda p: optim.Adadelta(p, lr=0.5), "Adamax": lambda p: optim.Adamax(p, lr=0.01), "ASGD": lambda p: optim.ASGD(p, lr=0.05),
    "NAdam": lambda p: optim.NAdam(p, lr=0.01), "RAdam": lambda p: optim.RAdam(p, lr=0.01), "RMSprop": lambda p: optim.RMSprop(p, lr=0.005, momentum=0.5, centered=True),
    "Rprop": lambda p: optim.Rprop(p, lr=0.01), "Adagrad": lambda p: optim.Adagrad(p, lr=0.05),
    "LBFGS": lambda p: optim.LBFGS(p, lr=0.5, max_iter=5, line_search_fn="strong_wolfe"),
}
for name, make in makers.items():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1)).to(device)
    optimizer = make(list(model.parameters()))

    def closure():
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(x), y)
        loss.backward()
        return loss

    scheduler = optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=5)
    for _ in range(4):
        loss = optimizer.step(closure)
        scheduler.step()
    print(name, f"{loss.item():.4f}", f"lr {scheduler.get_last_lr()[0]:.5f}")

model = nn.Sequential(nn.Linear(4, 8), nn.Linear(8, 1)).to(device)
optimizer = optim.SGD([{"params": model[0].parameters(), "lr": 0.01}, {"params": model[1].parameters()}], lr=0.1, momentum=0.9)
plateau = optim.lr_scheduler.ReduceLROnPlateau(optimizer, patience=0, factor=0.5)
for value in (1.0, 1.0, 1.0):
    nn.functional.mse_loss(model(x), y).backward()
    optimizer.step()
    plateau.step(torch.tensor(value, device=device))
print("rates", [round(g["lr"], 4) for g in optimizer.param_groups])
optimizer.add_param_group({"params": [nn.Parameter(torch.ones(2, device=device))]})
print("groups", len(optimizer.param_groups))
