"""Day-ahead load forecasting: dilated convolutions, quantile loss, a scaler that must be undone."""
from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor, nn


@dataclass
class Config:
    horizon: int = 6
    context: int = 24
    width: int = 12
    quantiles: tuple[float, ...] = (0.1, 0.5, 0.9)
    epochs: int = 5
    device: torch.device = field(
        default_factory=lambda: torch.device("cuda" if torch.cuda.is_available() else "cpu")
    )


@dataclass
class Scaler:
    mean: Tensor
    std: Tensor

    @classmethod
    def fit(cls, series: Tensor) -> Scaler:
        return cls(series.mean(0, keepdim=True), series.std(0, keepdim=True))

    def __call__(self, x: Tensor) -> Tensor:
        return (x - self.mean) / self.std

    def undo(self, x: Tensor) -> Tensor:
        return x * self.std + self.mean  # RAISES: 1

    def to(self, device: torch.device) -> Scaler:
        return Scaler(self.mean.to(device), self.std.to(device))


class Pinball(nn.Module):
    def __init__(self, cfg: Config):
        super().__init__()
        self.q = torch.tensor(cfg.quantiles)  # BUG 2: any culprit=self.q
        # FIX: self.register_buffer("q", torch.tensor(cfg.quantiles))

    def forward(self, pred: Tensor, target: Tensor) -> Tensor:
        error = target.unsqueeze(-1) - pred
        return torch.maximum(self.q * error, (self.q - 1) * error).mean()  # RAISES: 2


class TCN(nn.Module):
    def __init__(self, cfg: Config):
        super().__init__()
        self.cfg = cfg
        self.layers = nn.ModuleList(
            nn.Conv1d(1 if i == 0 else cfg.width, cfg.width, 2, dilation=2**i) for i in range(4)
        )
        self.head = nn.Linear(cfg.width + 2, cfg.horizon * len(cfg.quantiles))

    def forward(self, x: Tensor, hour: Tensor) -> Tensor:
        for layer in self.layers:
            x = layer(x).relu()
        angle = hour.float() * (6.2832 / 24)
        h = torch.cat([x[..., -1], angle.sin()[:, None], angle.cos()[:, None]], 1)  # RAISES: 3
        return self.head(h).view(len(x), self.cfg.horizon, -1)


def windows(series: Tensor, cfg: Config) -> tuple[Tensor, Tensor, Tensor]:
    rows = series.unfold(0, cfg.context + cfg.horizon, 5)
    starts = torch.arange(len(rows)) * 5 % 24  # ALSO: 3
    return rows[:, : cfg.context], rows[:, cfg.context :], starts  # ALSO: 3


def main() -> None:
    torch.manual_seed(3)
    cfg = Config()
    t = torch.arange(240.0)
    series = 50 + 10 * torch.sin(t / 24 * 6.2832) + 3 * torch.sin(t / 7)
    scaler = Scaler.fit(series)
    past, future, starts = windows(scaler(series), cfg)
    past, future = past.to(cfg.device), future.to(cfg.device)  # ALSO: 3
    model = TCN(cfg).to(cfg.device)
    criterion = Pinball(cfg).to(cfg.device)
    opt = torch.optim.Adam(model.parameters(), 1e-2)
    scaler.to(cfg.device)  # BUG 1: any culprit=self.std
    # FIX: scaler = scaler.to(cfg.device)
    for epoch in range(cfg.epochs):
        pred = model(past.unsqueeze(1), starts)  # BUG 3: any culprit=starts
        # FIX: pred = model(past.unsqueeze(1), starts.to(cfg.device))
        loss = criterion(pred, future)
        opt.zero_grad()
        loss.backward()
        opt.step()
        mae = (scaler.undo(pred[..., 1]) - scaler.undo(future)).abs().mean()
        print(f"epoch {epoch} pinball {loss.item():.4f} mae {mae.item():.3f}")


main()
