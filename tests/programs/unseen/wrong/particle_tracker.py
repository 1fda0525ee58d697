"""Bootstrap particle filter with a learned observation model; resampling, smoothing, effective sample size."""
from collections.abc import Iterator
from typing import Protocol

import torch
from torch import Tensor, nn


class HasDevice(Protocol):
    device: torch.device


class Observation(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 1))

    def log_prob(self, state: Tensor, seen: Tensor) -> Tensor:
        return -0.5 * (self.net(state).squeeze(-1) - seen).square() * 4


class Particles:
    def __init__(self, n: int, device: torch.device) -> None:
        self.device = device
        self.state = torch.stack([torch.linspace(-1, 1, n), torch.zeros(n)], 1).to(device)
        self.logw = torch.zeros(n, device=device)

    @property
    def weights(self) -> Tensor:
        return self.logw.softmax(0)

    def effective(self) -> float:
        return 1 / self.weights.square().sum().item()


class Filter:
    def __init__(self, model: Observation, n: int, device: torch.device) -> None:
        self.model, self.n, self.device = model, n, device
        self.motion = torch.tensor([[1.0, 0.1], [-0.2, 0.95]])  # BUG: any culprit=self.motion
        # FIX: self.motion = torch.tensor([[1.0, 0.1], [-0.2, 0.95]], device=device)
        self.particles = Particles(n, device)
        self.offset = torch.arange(n) / n  # ALSO: 2
        self.trail: list[Tensor] = []

    def move(self, t: int) -> None:
        p = self.particles
        jitter = torch.sin(torch.arange(self.n * 2.0, device=self.device) * (t + 1.3)).view(self.n, 2)
        p.state = p.state @ self.motion.t() + 0.05 * jitter  # RAISES: 1

    def weigh(self, seen: Tensor) -> None:
        p = self.particles
        p.logw = p.logw + self.model.log_prob(p.state, seen)

    def resample(self) -> None:
        p = self.particles
        cumulative = p.weights.cumsum(0)
        index = torch.searchsorted(cumulative, self.offset).clamp(max=self.n - 1)  # BUG 2: any culprit=self.offset # RAISES: 2
        # FIX: index = torch.searchsorted(cumulative, self.offset.to(self.device)).clamp(max=self.n - 1)
        p.state = p.state[index]
        p.logw = torch.zeros_like(p.logw)

    def run(self, observations: Tensor) -> Iterator[Tensor]:
        for t, seen in enumerate(observations):
            self.move(t)
            self.weigh(seen)
            estimate = self.particles.weights @ self.particles.state
            self.trail.append(estimate.cpu())
            if self.particles.effective() < self.n / 2:
                self.resample()
            yield estimate


def smooth(trail: list[Tensor], last: Tensor, gain: float = 0.6) -> list[Tensor]:
    out = [last]
    for estimate in reversed(trail[:-1]):
        out.append(gain * estimate + (1 - gain) * out[-1])  # RAISES: 3
    return out[::-1]


def truth(steps: int) -> Tensor:
    state, rows = torch.tensor([0.8, 0.0]), []
    turn = torch.tensor([[1.0, 0.1], [-0.2, 0.95]])
    for _ in range(steps):
        state = turn @ state
        rows.append(state)
    return torch.stack(rows)


def fit(model: Observation, states: Tensor, seen: Tensor) -> float:
    opt = torch.optim.LBFGS(model.parameters(), lr=0.5, max_iter=15)

    def closure() -> Tensor:
        opt.zero_grad()
        loss = -model.log_prob(states, seen).mean()
        loss.backward()
        return loss

    return opt.step(closure).item()


def main() -> None:
    torch.manual_seed(2)
    device = torch.device("cuda:0" if torch.cuda.is_available() else "cpu")
    states = truth(24)
    seen = states[:, 0] + 0.3 * states[:, 1]
    model = Observation().to(device)
    print(f"fit {fit(model, states.to(device), seen.to(device)):.4f}")
    with torch.no_grad():
        tracker = Filter(model, 32, device)
        estimates = list(tracker.run(seen.to(device)))
        error = torch.stack([(e.cpu() - s).norm() for e, s in zip(estimates, states)])
        print(f"error {error.mean().item():.4f} ess {tracker.particles.effective():.2f}")
        smoothed = smooth(tracker.trail, estimates[-1])  # BUG 3: any culprit=last
        # FIX: smoothed = smooth(tracker.trail, estimates[-1].cpu())
        print(f"smoothed {torch.stack(smoothed).sub(states).norm(dim=1).mean().item():.4f}")


main()
