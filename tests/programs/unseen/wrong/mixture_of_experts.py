"""Sparse mixture of experts with a load-balancing bias on piecewise regression."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class Expert(nn.Module):
    def __init__(self, d_in, d_hidden, d_out):
        super().__init__()
        self.up = nn.Linear(d_in, d_hidden)
        self.down = nn.Linear(d_hidden, d_out)

    def forward(self, x):
        return self.down(F.silu(self.up(x)))  # RAISES: 2


class Router(nn.Module):
    """Top-k router with an additive bias that is nudged towards balance."""

    def __init__(self, d_in, n_experts, k, nudge=0.02):
        super().__init__()
        self.gate = nn.Linear(d_in, n_experts, bias=False)
        self.k, self.nudge = k, nudge
        self.bias = torch.zeros(n_experts)  # BUG: any culprit=self.bias
        # FIX: self.register_buffer("bias", torch.zeros(n_experts))

    def forward(self, x):
        prob = self.gate(x).softmax(-1)
        chosen = (prob + self.bias).topk(self.k, dim=-1).indices  # RAISES: 1
        weight = prob.gather(-1, chosen)
        if self.training:
            self.rebalance(chosen)
        return weight / weight.sum(-1, keepdim=True), chosen

    @torch.no_grad()
    def rebalance(self, chosen):
        load = torch.bincount(chosen.flatten(), minlength=len(self.bias)).float()
        self.bias += self.nudge * torch.sign(load.mean() - load)


class SparseMoE(nn.Module):
    def __init__(self, d_in, d_out, n_experts=4, k=2, d_hidden=16):
        super().__init__()
        self.router = Router(d_in, n_experts, k)
        experts = []
        for _ in range(n_experts):
            experts.append(Expert(d_in, d_hidden, d_out))
        self.experts = experts  # BUG: any culprit=self.experts
        # FIX: self.experts = nn.ModuleList(experts)
        self.d_out = d_out

    def forward(self, x):
        weight, chosen = self.router(x)
        out = torch.zeros(len(x), self.d_out)  # BUG: any culprit=out
        # FIX: out = torch.zeros(len(x), self.d_out, device=x.device)
        for e, expert in enumerate(self.experts):
            rows, slot = torch.where(chosen == e)
            if rows.numel() == 0:
                continue
            out = out.index_add(0, rows, weight[rows, slot].unsqueeze(1) * expert(x[rows]))  # RAISES: 3
        return out, chosen


def piecewise(n, device):
    x = 2 * torch.rand(n, 3, device=device) - 1
    region = (x[:, 0] > 0).long() * 2 + (x[:, 1] > 0).long()
    slopes = torch.tensor([[1.0, -2, 0], [0, 1, 3], [-1, 0, 2], [2, 2, -1]], device=device)
    return x, (slopes[region] * x).sum(1, keepdim=True)


def expert_params(moe):
    for expert in moe.experts:
        yield from expert.parameters()


def main():
    torch.manual_seed(19)
    device = torch.device("cuda")
    moe = SparseMoE(3, 1).to(device)
    opt = torch.optim.Adam(
        [
            {"params": list(expert_params(moe)), "lr": 2e-2},
            {"params": moe.router.parameters(), "lr": 5e-3},
        ]
    )
    for it in range(40):
        x, y = piecewise(128, device)
        pred, chosen = moe(x)
        loss = F.mse_loss(pred, y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        if it % 10 == 9:
            share = torch.bincount(chosen.flatten(), minlength=4) / chosen.numel()
            print(it + 1, f"{loss.item():.4f}", [round(s, 3) for s in share.tolist()])


main()
