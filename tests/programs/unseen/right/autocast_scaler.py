"""Mixed precision as the docs have it."""
import torch
from torch import nn

device = "cuda" if torch.cuda.is_available() else "cpu"
torch.manual_seed(9)
net = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 1)).to(device)
opt = torch.optim.SGD(net.parameters(), lr=0.05)
scaler = torch.amp.GradScaler(device, enabled=device == "cuda", init_scale=64.0)
x = torch.sin(torch.arange(64.0)).view(16, 4)
y = x.sum(1, keepdim=True)

history = []
for it in range(6):
    xb, yb = x.to(device), y.to(device)
    opt.zero_grad(set_to_none=True)
    with torch.autocast(device_type=device, dtype=torch.bfloat16):
        pred = net(xb)
    loss = nn.functional.mse_loss(pred.float(), yb)
    scaler.scale(loss).backward()
    scaler.unscale_(opt)
    norm = nn.utils.clip_grad_norm_(net.parameters(), 5.0)
    scaler.step(opt)
    scaler.update()
    history.append(loss.item())
print(pred.dtype, history[-1] < history[0], norm.item() > 0, len(history))
