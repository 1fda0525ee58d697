import torch
from torch import nn


class RunningNorm(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.register_buffer("mean", torch.zeros(dim))
        self.register_buffer("m2", torch.zeros(dim))
        self.register_buffer("count", torch.tensor(0.0))

    @torch.no_grad()
    def observe(self, x):
        for row in x:
            self.count += 1
            d = row - self.mean
            self.mean += d / self.count
            self.m2 += d * (row - self.mean)

    def forward(self, x):
        if self.training:
            self.observe(x.detach())
        return (x - self.mean) / (self.m2 / self.count.clamp(min=1) + 1e-5).sqrt()


def main():
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    norm = RunningNorm(3).to(device)
    steps = torch.zeros((), dtype=torch.long)     # host counter
    data = torch.sin(torch.arange(60.0)).view(20, 3)
    for chunk in data.split(5):
        z = norm(chunk.to(device, non_blocking=False))
        steps += len(chunk)
    norm.eval()
    out = norm(data.to(norm.mean.device))
    print(int(steps), int(norm.count), "%.4f %.4f" % (out.mean().item(), out.std().item()))
    assert torch.allclose(norm.mean.cpu(), data.mean(0), atol=1e-5)


main()
