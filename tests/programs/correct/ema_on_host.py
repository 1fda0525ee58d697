"""The moving average is kept on the CPU on purpose, to spare the GPU's memory."""
import torch
from torch import nn


class HostEMA:
    def __init__(self, model, decay):
        self.decay = decay
        self.average = {k: v.detach().to("cpu", copy=True) for k, v in model.state_dict().items()}

    @torch.no_grad()
    def update(self, model):
        for k, v in model.state_dict().items():
            self.average[k].lerp_(v.cpu(), 1 - self.decay) if v.is_floating_point() else self.average[k].copy_(v)


torch.manual_seed(0)
model = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Linear(8, 1)).to("cuda")
ema = HostEMA(model, 0.9)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
x = torch.randn(32, 4, device="cuda")
for _ in range(4):
    loss = (model(x) - x.sum(1, keepdim=True)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    ema.update(model)
smooth = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Linear(8, 1)).to("cuda")
smooth.load_state_dict(ema.average)
print({str(v.device) for v in ema.average.values()}, smooth[1].num_batches_tracked.item(), smooth(x).device)
