"""One optimizer, parameter groups on three devices."""
import torch
from torch import nn

torch.manual_seed(0)
front, middle, back = nn.Linear(4, 6), nn.Linear(6, 6).to("cuda:0"), nn.Linear(6, 1).to("cuda:1")
optimizer = torch.optim.AdamW(
    [
        {"params": front.parameters(), "lr": 1e-2},
        {"params": middle.parameters(), "lr": 1e-3},
        {"params": back.parameters(), "weight_decay": 0.0},
    ],
    lr=1e-3,
)
x = torch.randn(10, 4)
for _ in range(3):
    h = torch.relu(front(x))
    h = torch.relu(middle(h.to("cuda:0")))
    loss = back(h.to("cuda:1")).square().mean()
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_([*front.parameters(), *middle.parameters(), *back.parameters()], 1.0)
    optimizer.step()
print([str(p.device) for group in optimizer.param_groups for p in group["params"]], "%.4f" % loss.item())
print(sorted({str(s["exp_avg"].device) for s in optimizer.state.values()}))
