# EMA kept on the host; moved on use only
import copy
import torch
from torch import nn


class HostEMA:
    def __init__(self, model, decay=0.9):
        self.decay = decay
        self.shadow = copy.deepcopy(model).cpu().requires_grad_(False)

    @torch.no_grad()
    def update(self, model):
        for s, p in zip(self.shadow.parameters(), model.parameters()):
            s.lerp_(p.to(s.device), 1 - self.decay)
        for s, b in zip(self.shadow.buffers(), model.buffers()):
            s.copy_(b)          # copy_ crosses devices

    def on(self, device):
        return copy.deepcopy(self.shadow).to(device)


torch.manual_seed(5)
device = "cuda:0" if torch.cuda.is_available() else "cpu"
model = nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6), nn.ReLU(), nn.Linear(6, 1)).to(device)
ema = HostEMA(model)
opt = torch.optim.Adam(model.parameters(), lr=1e-2)
x = torch.cos(torch.arange(48.0)).view(12, 4).to(device)
y = x.mean(1, keepdim=True)
for _ in range(10):
    loss = nn.functional.mse_loss(model(x), y)
    opt.zero_grad()
    loss.backward()
    opt.step()
    ema.update(model)
with torch.no_grad():
    teacher = ema.on(x.device).eval()
    smooth = nn.functional.mse_loss(teacher(x), y)
    host = nn.functional.mse_loss(ema.shadow.eval()(x.cpu()), y.cpu())
print("%.4f %.4f" % (loss.item(), smooth.item()), abs(smooth.item() - host.item()) < 1e-5)
