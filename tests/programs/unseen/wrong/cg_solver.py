# Kernel ridge regression by conjugate gradients, plus a GP posterior with Cholesky
from __future__ import annotations
from typing import Callable
import torch
from torch import Tensor


def rbf(a: Tensor, b: Tensor, ls: Tensor) -> Tensor:
    a, b = a / ls, b / ls  # RAISES: 1
    return torch.exp(-0.5 * torch.cdist(a, b) ** 2)


def conjugate_gradient(matvec: Callable[[Tensor], Tensor], b: Tensor, tol: float = 1e-6, max_iter: int = 50) -> Tensor:
    x = torch.zeros(b.shape, dtype=b.dtype)  # BUG 2: any culprit=x
    # FIX: x = torch.zeros(b.shape, dtype=b.dtype, device=b.device)
    r = b.clone()
    p = r.clone()
    rs = r @ r
    for _ in range(max_iter):
        ap = matvec(p)
        alpha = rs / (p @ ap)
        x = x + alpha * p  # RAISES: 2
        r = r - alpha * ap
        new = r @ r
        if new.sqrt() < tol:
            break
        p = r + (new / rs) * p
        rs = new
    return x


class KRR:
    def __init__(self, ls: list[float], ridge: float, device: torch.device) -> None:
        self.ls = torch.tensor(ls)  # BUG 1: any culprit=self.ls
        # FIX: self.ls = torch.tensor(ls, device=device)
        self.ridge = ridge
        self.device = device

    def fit(self, x: Tensor, y: Tensor) -> "KRR":
        self.x = x.to(self.device)
        k = rbf(self.x, self.x, self.ls)
        self.alpha = conjugate_gradient(lambda v: k @ v + self.ridge * v, y.to(self.device))
        return self

    def predict(self, x: Tensor) -> Tensor:
        return rbf(x.to(self.device), self.x, self.ls) @ self.alpha

    def variance(self, x: Tensor) -> Tensor:
        k = rbf(self.x, self.x, self.ls)
        k = k + self.ridge * torch.eye(len(k))  # BUG 3: any culprit=torch.eye(len(k)) # RAISES: 3
        # FIX: k = k + self.ridge * torch.eye(len(k), device=self.device)
        ks = rbf(x.to(self.device), self.x, self.ls)
        chol = torch.linalg.cholesky(k)
        v = torch.linalg.solve_triangular(chol, ks.T, upper=False)
        return (1 - v.pow(2).sum(0)).clamp(min=0)


def main() -> None:
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    x = torch.stack([torch.linspace(0, 3, 20), torch.linspace(1, -1, 20).square()], dim=1)
    y = torch.sin(x[:, 0]) + x[:, 1]
    model = KRR([0.7, 0.9], 0.05, device).fit(x, y)
    err = (model.predict(x).cpu() - y).abs().mean()
    print(f"{err.item():.4f} {model.variance(x + 0.1).mean().item():.4f}")


if __name__ == "__main__":
    main()
