"""Checkpoint with optimizer, scheduler, generator and a shadow model; everything is loaded by way of the host."""
import copy
import io

import torch
import torch.nn as nn


class Run:
    def __init__(self, device, seed):
        torch.manual_seed(seed)
        self.device = torch.device(device)
        self.net = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 1)).to(self.device)
        self.shadow = copy.deepcopy(self.net).requires_grad_(False)
        self.opt = torch.optim.Adam(self.net.parameters(), lr=1e-2, amsgrad=True)
        self.sched = torch.optim.lr_scheduler.StepLR(self.opt, 5, 0.5)
        self.gen = torch.Generator().manual_seed(seed)
        self.range = torch.full((2,), float("nan"), device=self.device)

    def batch(self):
        x = torch.rand(32, 4, generator=self.gen)
        y = (x.sum(1, keepdim=True) * 3).sin()
        return x.to(self.device), y.to(self.device)

    def train(self, n):
        for _ in range(n):
            x, y = self.batch()
            loss = (self.net(x) - y).square().mean()
            self.opt.zero_grad()
            loss.backward()
            self.opt.step()
            self.sched.step()
            with torch.no_grad():
                for s, p in zip(self.shadow.parameters(), self.net.parameters()):
                    s.lerp_(p, 0.1)
            low, high = y.aminmax()
            self.range = torch.stack([torch.fmin(self.range[0], low), torch.fmax(self.range[1], high)])
        return loss.item()

    def state(self):
        return {
            "net": self.net.state_dict(),
            "shadow": self.shadow.state_dict(),
            "opt": self.opt.state_dict(),
            "sched": self.sched.state_dict(),
            "gen": self.gen.get_state(),
            "range": self.range,
        }

    def load(self, state):
        self.net.load_state_dict(state["net"])
        self.shadow.load_state_dict(state["shadow"])
        self.opt.load_state_dict(state["opt"])
        self.sched.load_state_dict(state["sched"])
        self.gen.set_state(state["gen"])
        self.range.copy_(state["range"])


def main():
    device = "cuda" if torch.cuda.is_available() else "cpu"
    run = Run(device, seed=6)
    print(f"first {run.train(8):.5f}")
    f = io.BytesIO()
    torch.save(run.state(), f)
    straight = run.train(6)

    f.seek(0)
    state = torch.load(f, map_location="cpu", weights_only=True)
    other = Run(device, seed=99)
    other.load(state)
    print(f"straight {straight:.5f} resumed {other.train(6):.5f}")
    print("range", [round(v, 4) for v in other.range.tolist()])

    probe = torch.full((1, 4), 0.5)
    on_host = Run("cpu", seed=0)
    on_host.load({**state, "net": {k: v.cpu() for k, v in other.net.state_dict().items()}})
    gap = (on_host.net(probe) - other.net(probe.to(device)).cpu()).abs().max()
    print(f"host copy gap {gap.item():.4f}")


main()
