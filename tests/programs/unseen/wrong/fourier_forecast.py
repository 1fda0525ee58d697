"""Forecast a noisy seasonal series with trend and Fourier bases."""
from functools import cached_property

import torch
from torch import nn


class SeasonalBasis(nn.Module):
    """Projects coefficients on a harmonic basis over the backcast and forecast grids."""

    def __init__(self, backcast, forecast, harmonics, period):
        super().__init__()
        self.backcast, self.forecast = backcast, forecast
        self.harmonics, self.period = harmonics, period
        self.coef = nn.Linear(backcast, 2 * harmonics)

    @cached_property
    def grid(self):
        t = torch.arange(self.backcast + self.forecast) / self.period  # BUG: any culprit=t
        # FIX: t = torch.arange(self.backcast + self.forecast, device=self.coef.weight.device) / self.period
        k = torch.arange(1, self.harmonics + 1, device=t.device)[:, None]
        angle = 2 * torch.pi * k * t
        return torch.cat([angle.cos(), angle.sin()])

    def forward(self, x):
        full = self.coef(x) @ self.grid  # RAISES: 1
        return full.split([self.backcast, self.forecast], dim=-1)


class TrendBasis(nn.Module):
    def __init__(self, backcast, forecast, degree):
        super().__init__()
        self.split = [backcast, forecast]
        t = torch.linspace(-1, 1, backcast + forecast)
        self.register_buffer("powers", torch.stack([t ** i for i in range(degree + 1)]))
        self.coef = nn.Sequential(nn.Linear(backcast, 16), nn.ReLU(), nn.Linear(16, degree + 1))

    def forward(self, x):
        return (self.coef(x) @ self.powers).split(self.split, dim=-1)  # RAISES: 3


class Forecaster(nn.Module):
    def __init__(self, backcast=48, forecast=12):
        super().__init__()
        self.blocks = nn.ModuleList([TrendBasis(backcast, forecast, 2), SeasonalBasis(backcast, forecast, 3, 12)])
        self.horizon = forecast

    def forward(self, x):
        total = torch.zeros(len(x), self.horizon)  # BUG: any culprit=total
        # FIX: total = torch.zeros(len(x), self.horizon, device=x.device)
        for block in self.blocks:
            back, ahead = block(x)
            x = x - back
            total = total + ahead  # RAISES: 2
        return total


def make_series(n=500):
    t = torch.arange(n)
    season = torch.sin(2 * torch.pi * t / 12) + 0.5 * torch.cos(2 * torch.pi * t / 6)
    return 0.01 * t + season + 0.1 * torch.randn(n)


def quantile_loss(pred, truth, q):
    err = truth - pred
    return torch.maximum(q * err, (q - 1) * err).mean()


if __name__ == "__main__":
    torch.manual_seed(5)
    dev = torch.device("cuda")
    windows = make_series().unfold(0, 60, 3)
    train, valid = windows[:110].to(dev), windows[110:]  # BUG: any
    # FIX: train, valid = windows[:110].to(dev), windows[110:].to(dev)
    net = Forecaster().to(dev)
    opt = torch.optim.Adam(net.parameters(), lr=5e-3)
    for epoch in range(30):
        loss = quantile_loss(net(train[:, :48]), train[:, 48:], 0.5)
        opt.zero_grad()
        loss.backward()
        opt.step()
        if epoch % 10 == 9:
            with torch.no_grad():
                val = quantile_loss(net(valid[:, :48]), valid[:, 48:], 0.5)
            print(f"{epoch + 1} train {loss.item():.4f} valid {val.item():.4f}")
