"""PPO with a vectorised toy environment living in numpy."""
from __future__ import annotations

import numpy as np
import torch
from torch import nn
from torch.distributions import Categorical


class Env:
    def __init__(self, n: int):
        self.n = n
        self.s = np.linspace(-1, 1, n * 2).reshape(n, 2).astype(np.float32)

    def step(self, a: np.ndarray):
        self.s[:, 0] = 0.9 * self.s[:, 0] + 0.2 * (a - 0.5)
        self.s[:, 1] = np.sin(self.s.sum(1))
        return self.s.copy(), -np.abs(self.s[:, 0])


class Policy(nn.Module):
    def __init__(self):
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(2, 16), nn.Tanh())
        self.pi, self.v = nn.Linear(16, 2), nn.Linear(16, 1)

    def forward(self, s):
        h = self.trunk(s)  # RAISES: 3
        return Categorical(logits=self.pi(h)), self.v(h).squeeze(-1)


class RolloutBuffer:
    def __init__(self, T: int, n: int, device):
        self.obs = torch.zeros(T, n, 2, device=device)
        self.act = torch.zeros(T, n, dtype=torch.long, device=device)
        self.logp = torch.zeros(T, n, device=device)
        self.val = torch.zeros(T + 1, n, device=device)
        self.rew = torch.zeros(T, n)  # BUG: any culprit=self.rew
        # FIX: self.rew = torch.zeros(T, n, device=device)
        self.T = T

    def advantages(self, gamma=0.99, lam=0.95):
        adv = torch.zeros_like(self.rew)
        last = 0.0
        for t in reversed(range(self.T)):
            delta = self.rew[t] + gamma * self.val[t + 1] - self.val[t]  # RAISES: 1
            last = delta + gamma * lam * last
            adv[t] = last
        return adv


class PPO:
    def __init__(self, envs=6, horizon=8, device=None):
        self.device = torch.device(device or ("cuda" if torch.cuda.is_available() else "cpu"))
        self.env = Env(envs)
        self.policy = Policy().to(self.device)
        self.opt = torch.optim.Adam(self.policy.parameters(), lr=3e-3)
        self.horizon = horizon

    @torch.no_grad()
    def collect(self) -> RolloutBuffer:
        buf = RolloutBuffer(self.horizon, self.env.n, self.device)
        obs = torch.as_tensor(self.env.s.copy(), device=self.device)
        for t in range(self.horizon):
            dist, val = self.policy(obs)
            act = dist.probs.argmax(-1)
            buf.obs[t], buf.act[t], buf.val[t] = obs, act, val
            buf.logp[t] = dist.log_prob(act)
            nxt, rew = self.env.step(act.numpy())  # BUG: any culprit=act # RAISES: 2
            # FIX: nxt, rew = self.env.step(act.cpu().numpy())
            buf.rew[t] = torch.from_numpy(rew)
            obs = torch.from_numpy(nxt)  # BUG: any culprit=obs
            # FIX: obs = torch.from_numpy(nxt).to(self.device)
        buf.val[-1] = self.policy(obs)[1]
        return buf

    def update(self, buf: RolloutBuffer, clip=0.2, epochs=3) -> float:
        adv = buf.advantages()
        ret = adv + buf.val[:-1]
        for _ in range(epochs):
            dist, val = self.policy(buf.obs)
            ratio = (dist.log_prob(buf.act) - buf.logp).exp()
            pg = -torch.min(ratio * adv, ratio.clamp(1 - clip, 1 + clip) * adv).mean()
            loss = pg + 0.5 * (val - ret).pow(2).mean() - 0.01 * dist.entropy().mean()
            self.opt.zero_grad()
            loss.backward()
            self.opt.step()
        return loss.item()


torch.manual_seed(0)
algo = PPO()
losses = [algo.update(algo.collect()) for _ in range(3)]
print(" ".join(f"{v:.4f}" for v in losses))
