"""Fit a neural ODE to predator and prey curves with a hand written Runge-Kutta integrator."""
import numpy as np
import torch
import torch.nn as nn


def lotka(y0, times, a=1.1, b=0.4, c=0.4, d=0.1):
    rhs = lambda y: np.stack([a * y[:, 0] - b * y[:, 0] * y[:, 1], d * y[:, 0] * y[:, 1] - c * y[:, 1]], 1)
    out, y = [y0], y0
    for t0, t1 in zip(times[:-1], times[1:]):
        for _ in range(10):
            h = (t1 - t0) / 10
            y = y + h * rhs(y + 0.5 * h * rhs(y))
        out.append(y)
    return np.stack(out).astype(np.float32)


class Field(nn.Module):
    def __init__(self, width=24):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(3, width), nn.Tanh(), nn.Linear(width, 2))
        self.calls = 0

    def forward(self, t, y):
        self.calls += 1
        clock = t.reshape(1, 1).expand(len(y), 1)  # BUG: any culprit=clock|t
        # FIX: clock = t.reshape(1, 1).expand(len(y), 1).to(y.device)
        return self.net(torch.cat([y, clock / 5], dim=1))  # RAISES: 1


def rk4_step(f, t, y, h):
    k1 = f(t, y)
    k2 = f(t + h / 2, y + h / 2 * k1)
    k3 = f(t + h / 2, y + h / 2 * k2)
    k4 = f(t + h, y + h * k3)
    return y + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)


def integrate(f, y0, times):
    track = torch.empty(len(times), *y0.shape)  # BUG: any culprit=track
    # FIX: track = y0.new_empty(len(times), *y0.shape)
    track[0] = y = y0
    for i in range(len(times) - 1):
        y = rk4_step(f, times[i], y, times[i + 1] - times[i])
        track[i + 1] = y
    return track


class ScaledError:
    def __init__(self, target):
        self.spread = target.std((0, 1))

    def __call__(self, pred, target):
        miss = pred - target  # RAISES: 2
        return (miss / self.spread).square().mean()  # RAISES: 3


def fit(field, y0, times, target, error, steps):
    opt = torch.optim.Adam(field.parameters(), lr=1e-2)
    sched = torch.optim.lr_scheduler.OneCycleLR(opt, max_lr=2e-2, total_steps=steps)
    for step in range(steps):
        loss = error(integrate(field, y0, times), target)
        opt.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(field.parameters(), 1.0)
        opt.step()
        sched.step()
        if step % 8 == 7:
            print(f"step {step + 1} error {loss.item():.4f} lr {sched.get_last_lr()[0]:.5f}")


def forecast(field, y0, horizon, reference):
    with torch.no_grad():
        pred = integrate(field, y0, horizon)
    pred = pred.numpy()  # BUG 4: any culprit=pred  # RAISES: 4
    # FIX: pred = pred.cpu().numpy()
    return float(np.abs(pred - reference).mean())


def main():
    torch.manual_seed(9)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    grid = np.linspace(0, 4, 17)
    start = np.random.default_rng(9).uniform(1, 5, size=(6, 2))
    curves = torch.from_numpy(lotka(start, grid))
    times = torch.from_numpy(grid.astype(np.float32))  # ALSO: 1
    error = ScaledError(curves)  # BUG 3: any culprit=error|self.spread
    # FIX: error = ScaledError(curves.to(device))
    target = curves.to(device)
    field = Field().to(device)
    fit(field, target[0], times[:9], target[:9], error, 24)
    print(f"forecast error {forecast(field, target[0], times, curves.numpy()):.4f} calls {field.calls}")


main()
