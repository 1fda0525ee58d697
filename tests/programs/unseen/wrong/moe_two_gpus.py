"""Mixture of experts, experts spread round-robin over the visible GPUs."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class Expert(nn.Module):
    def __init__(self, d, h):
        super().__init__()
        self.up = nn.Linear(d, h)
        self.down = nn.Linear(h, d)

    def forward(self, x):
        return self.down(F.silu(self.up(x)))


class SpreadMoE(nn.Module):
    def __init__(self, d, h, devices, n_experts=4, k=2):
        super().__init__()
        self.home = devices[0]
        self.placement = [devices[i % len(devices)] for i in range(n_experts)]
        self.gate = nn.Linear(d, n_experts, bias=False).to(self.home)
        self.experts = nn.ModuleList(Expert(d, h).to(dev) for dev in self.placement)
        self.k = k
        self.load = torch.zeros(n_experts)  # BUG: any culprit=self.load
        # FIX: self.load = torch.zeros(n_experts, device=self.home)

    def forward(self, x):
        scores = self.gate(x).softmax(-1)
        w, idx = scores.topk(self.k, dim=-1)
        w = w / w.sum(-1, keepdim=True)
        with torch.no_grad():
            self.load += torch.bincount(idx.flatten(), minlength=len(self.experts))  # RAISES: 1
        out = torch.zeros_like(x)
        for e, (expert, dev) in enumerate(zip(self.experts, self.placement)):
            tok, slot = (idx == e).nonzero(as_tuple=True)
            if tok.numel() == 0:
                continue
            y = expert(x[tok].to(dev))  # ALSO: 2
            y = y * w[tok, slot].unsqueeze(1)  # BUG: any culprit=y # RAISES: 2
            # FIX: y = y.to(self.home) * w[tok, slot].unsqueeze(1)
            out = out.index_add(0, tok, y)
        return out

    def balance_penalty(self):
        total = 0.0
        for expert in self.experts:
            total = total + expert.up.weight.pow(2).mean()  # BUG: any culprit=expert.up.weight # RAISES: 3
            # FIX: total = total + expert.up.weight.pow(2).mean().to(self.home)
        return total / len(self.experts)


def main():
    torch.manual_seed(13)
    devices = [torch.device("cuda", i) for i in range(torch.cuda.device_count())]
    moe = SpreadMoE(6, 10, devices)
    opt = torch.optim.Adam(moe.parameters(), lr=3e-3)
    x = torch.sin(torch.arange(20 * 6.0)).view(20, 6).to(devices[0])
    y = x.roll(1, dims=1)
    for _ in range(8):
        opt.zero_grad()
        loss = F.mse_loss(moe(x), y) + 0.01 * moe.balance_penalty()
        loss.backward()
        opt.step()
    print(f"{loss.item():.4f}", int(moe.load.sum()))


if __name__ == "__main__":
    main()
