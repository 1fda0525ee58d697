# Time-series forecasting: standard scaler fitted on the host, seq2one TCN, quantile loss
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F


class StandardScaler:
    def fit(self, x):
        self.mean = torch.tensor(x.mean(axis=0), dtype=torch.float32)  # ALSO: 1
        self.std = torch.tensor(x.std(axis=0), dtype=torch.float32)  # ALSO: 1
        return self

    def transform(self, x):
        return (x - self.mean) / self.std

    def inverse_transform(self, z):
        return z * self.std + self.mean  # BUG: any culprit=self.std # RAISES: 1
        # FIX: return z * self.std.to(z.device) + self.mean.to(z.device)


class CausalConv(nn.Module):
    def __init__(self, i, o, k, d):
        super().__init__()
        self.pad = (k - 1) * d
        self.conv = nn.Conv1d(i, o, k, dilation=d)

    def forward(self, x):
        return self.conv(F.pad(x, (self.pad, 0)))


class TCN(nn.Module):
    def __init__(self, series, quantiles):
        super().__init__()
        self.net = nn.Sequential(CausalConv(series, 8, 2, 1), nn.ReLU(), CausalConv(8, 8, 2, 2), nn.ReLU())
        self.out = nn.Linear(8, series * quantiles)
        self.series, self.q = series, quantiles

    def forward(self, x):
        h = self.net(x.transpose(1, 2))[..., -1]
        return self.out(h).view(-1, self.series, self.q)


def pinball(pred, target, quantiles):
    err = target.unsqueeze(-1) - pred
    return torch.maximum(quantiles * err, (quantiles - 1) * err).mean()  # RAISES: 2


def windows(z, size=8):
    xs = torch.stack([z[i : i + size] for i in range(len(z) - size)])
    return xs, z[size:]


def main():
    torch.manual_seed(20)
    if torch.cuda.is_available():
        device = torch.device("cuda")
    else:
        device = torch.device("cpu")
    t = np.arange(60)
    raw = np.stack([10 + np.sin(t / 3), 5 * np.cos(t / 4) + 0.1 * t, t % 7], axis=1)
    scaler = StandardScaler().fit(raw)
    x, y = windows(scaler.transform(torch.tensor(raw, dtype=torch.float32)))
    quantiles = torch.tensor([0.1, 0.5, 0.9])  # BUG: any culprit=quantiles
    # FIX: quantiles = torch.tensor([0.1, 0.5, 0.9]).to(device)
    model = TCN(3, len(quantiles)).to(device)
    opt = torch.optim.Adam(model.parameters(), lr=1e-2)
    for _ in range(12):
        loss = pinball(model(x.to(device)), y.to(device), quantiles)  # ALSO: 2
        opt.zero_grad()
        loss.backward()
        opt.step()
    with torch.no_grad():
        median = model(x[-1:].to(device))[..., 1]
    forecast = scaler.inverse_transform(median)  # ALSO: 1
    print("%.4f" % loss.item(), np.round(forecast.cpu().numpy(), 2).tolist())


main()
