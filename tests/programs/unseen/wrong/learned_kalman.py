"""Batched Kalman filter; process and observation noise fitted by likelihood."""
import math

import torch
from torch import nn


class ConstantVelocity:
    """Motion model: state is (x, y, vx, vy)."""

    OBSERVE = torch.tensor([[1.0, 0, 0, 0], [0, 1.0, 0, 0]])

    def __init__(self, dt, device):
        self.device = device
        self.F = torch.eye(4, device=device)
        self.F[0, 2] = self.F[1, 3] = dt
        self.H = self.OBSERVE  # BUG: any culprit=self.H
        # FIX: self.H = self.OBSERVE.to(device)
        g = torch.tensor([[dt ** 2 / 2, 0], [0, dt ** 2 / 2], [dt, 0], [0, dt]], device=device)
        self.Q = g @ g.T


class KalmanNLL(nn.Module):
    def __init__(self, model):
        super().__init__()
        self.model = model
        self.log_q = nn.Parameter(torch.tensor(0.0))
        self.log_r = nn.Parameter(torch.zeros(2))

    def initial(self, batch):
        mean = torch.zeros(batch, 4, 1, device=self.log_q.device)
        cov = 10.0 * torch.eye(4).expand(batch, 4, 4)  # BUG: any culprit=cov
        # FIX: cov = 10.0 * torch.eye(4, device=self.log_q.device).expand(batch, 4, 4)
        return mean, cov

    def predict(self, mean, cov):
        F = self.model.F
        return F @ mean, F @ cov @ F.T + self.log_q.exp() * self.model.Q  # RAISES: 2

    def update(self, mean, cov, z):
        H = self.model.H  # ALSO: 1
        S = H @ cov @ H.T + torch.diag(self.log_r.exp())  # RAISES: 1  # ALSO: 1
        resid = z.unsqueeze(-1) - H @ mean  # ALSO: 1
        gain = torch.linalg.solve(S, H @ cov).mT  # ALSO: 1
        L = torch.linalg.cholesky(S)
        white = torch.linalg.solve_triangular(L, resid, upper=False)
        nll = 0.5 * white.pow(2).sum((1, 2)) + L.diagonal(dim1=1, dim2=2).log().sum(1) + math.log(2 * math.pi)
        return mean + gain @ resid, cov - gain @ H @ cov, nll  # ALSO: 1

    def forward(self, track):
        mean, cov = self.initial(track.shape[0])
        total, path = 0.0, []
        for z in track.unbind(1):
            mean, cov = self.predict(mean, cov)
            mean, cov, nll = self.update(mean, cov, z)
            total = total + nll.mean()
            path.append(mean[:, :2, 0])
        return total / track.shape[1], torch.stack(path, 1)


def simulate(batch, steps, dt, seed):
    g = torch.Generator().manual_seed(seed)
    pos = torch.zeros(batch, 2)
    vel = torch.randn(batch, 2, generator=g)
    clean = []
    for _ in range(steps):
        acc = 0.6 * torch.randn(batch, 2, generator=g)
        pos = pos + dt * vel + 0.5 * dt * dt * acc
        vel = vel + dt * acc
        clean.append(pos)
    clean = torch.stack(clean, 1)
    return clean, clean + torch.tensor([0.3, 0.8]) * torch.randn(clean.shape, generator=g)


def main(device="cuda"):
    torch.manual_seed(0)
    clean, noisy = simulate(24, 20, 0.5, seed=12)
    clean = clean.float()  # BUG: any culprit=clean
    # FIX: clean = clean.to(device)
    noisy = noisy.to(device)
    filt = KalmanNLL(ConstantVelocity(0.5, device)).to(device)
    opt = torch.optim.Adam(filt.parameters(), lr=0.1)
    for it in range(15):
        nll, path = filt(noisy)
        opt.zero_grad()
        nll.backward()
        opt.step()
        if it % 5 == 4:
            rmse = (path.detach() - clean).pow(2).mean().sqrt()  # RAISES: 3
            print(f"{it + 1} nll {nll.item():.4f} rmse {rmse.item():.4f}")
    print("r", [round(v, 3) for v in filt.log_r.exp().tolist()], "q", round(filt.log_q.exp().item(), 3))


main()
