"""A non-module policy hierarchy with its own to(): the subclass forgets its table."""
from __future__ import annotations
from abc import ABC, abstractmethod
import torch
from torch import Tensor


class Preprocessor(ABC):
    def __init__(self) -> None:
        self.device = torch.device("cpu")

    def to(self, device: torch.device) -> "Preprocessor":
        self.device = device
        return self

    @abstractmethod
    def __call__(self, x: Tensor) -> Tensor: ...


class Whiten(Preprocessor):
    def __init__(self, sample: Tensor) -> None:
        super().__init__()
        self.mu = sample.mean(0)
        cov = torch.cov(sample.T) + 1e-2 * torch.eye(sample.size(1))
        vals, vecs = torch.linalg.eigh(cov)
        self.w = vecs @ torch.diag(vals.rsqrt()) @ vecs.T  # ALSO: 1

    def to(self, device: torch.device) -> "Whiten":
        self.mu = self.mu.to(device)  # ALSO: 1
        return super().to(device)  # BUG: any culprit=self.w
        # FIX: self.w = self.w.to(device)
        # FIX: return super().to(device)

    def __call__(self, x: Tensor) -> Tensor:
        return (x - self.mu) @ self.w  # RAISES: 1


class RandomFeatures(Preprocessor):
    def __init__(self, d: int, n: int) -> None:
        super().__init__()
        self.omega = torch.sin(torch.arange(d * n).float() * 1.7).view(d, n)

    def to(self, device: torch.device) -> "RandomFeatures":
        self.omega = self.omega.to(device)
        return super().to(device)

    def __call__(self, x: Tensor) -> Tensor:
        phase = torch.arange(self.omega.size(1)) * 0.3  # BUG: any culprit=phase
        # FIX: phase = torch.arange(self.omega.size(1), device=self.device) * 0.3
        return torch.cos(x @ self.omega + phase)  # RAISES: 2


class Chain(Preprocessor):
    def __init__(self, *parts: Preprocessor) -> None:
        super().__init__()
        self.parts = parts

    def to(self, device: torch.device) -> "Chain":
        for p in self.parts:
            p.to(device)
        return super().to(device)

    def __call__(self, x: Tensor) -> Tensor:
        for p in self.parts:
            x = p(x)
        return x


def ridge(f: Tensor, y: Tensor, lam: float) -> Tensor:
    a = f.T @ f
    a.diagonal().add_(lam)
    return torch.linalg.solve(a, f.T @ y)


def main() -> None:
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    x = torch.sin(torch.arange(120.0)).view(30, 4)
    y = (x[:, 0] * x[:, 1] + x[:, 2]).to(device)
    chain = Chain(Whiten(x), RandomFeatures(4, 10)).to(device)
    f = chain(x.to(device))
    coef = ridge(f, y, 0.5)
    mse = (f @ coef - y).square().mean()
    print(f"{mse.item():.4f} {coef.abs().max().item():.3f}")


main()
