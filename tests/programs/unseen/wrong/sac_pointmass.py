"""Soft actor-critic on a point mass in one dimension. Small on purpose."""
import copy
import random
from collections import deque

import torch
import torch.nn as nn
import torch.nn.functional as F


def mlp(i, o, h=24):
    return nn.Sequential(nn.Linear(i, h), nn.ReLU(), nn.Linear(h, o))


class Actor(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = mlp(2, 2)

    def forward(self, s, noise):
        mu, log_std = self.body(s).chunk(2, -1)  # RAISES: 3
        log_std = log_std.clamp(-4, 1)
        u = mu + log_std.exp() * noise
        a = torch.tanh(u)
        logp = -0.5 * noise**2 - log_std - torch.log(1 - a**2 + 1e-6)
        return a, logp


class Replay:
    def __init__(self, size):
        self.rows = deque(maxlen=size)

    def push(self, *row):
        self.rows.append(row)

    def sample(self, n, rng):
        picked = rng.sample(list(self.rows), n)
        return [torch.tensor(column, dtype=torch.float32) for column in zip(*picked)]


class Agent:
    def __init__(self, device):
        self.device = device
        self.actor = Actor().to(device)
        self.q = nn.ModuleList([mlp(3, 1), mlp(3, 1)])
        self.q_target = copy.deepcopy(self.q)  # BUG: any culprit=self.q_target
        # FIX: self.q_target = copy.deepcopy(self.q).to(device)
        self.q.to(device)
        self.log_alpha = torch.full((1,), -1.0, requires_grad=True)  # BUG: any culprit=self.log_alpha
        # FIX: self.log_alpha = torch.full((1,), -1.0, requires_grad=True, device=device)
        self.opt_actor = torch.optim.Adam(self.actor.parameters(), 3e-3)
        self.opt_q = torch.optim.Adam(self.q.parameters(), 3e-3)
        self.opt_alpha = torch.optim.Adam([self.log_alpha], 3e-3)

    def noise(self, n, step):
        return torch.sin(torch.arange(n, device=self.device) * 1.7 + step).unsqueeze(1)

    def act(self, state, step):
        with torch.no_grad():
            s = torch.tensor([state], dtype=torch.float32)  # BUG: any culprit=s
            # FIX: s = torch.tensor([state], dtype=torch.float32, device=self.device)
            a, _ = self.actor(s, self.noise(1, step))
        return a.item()

    def update(self, batch, step):
        s, a, r, s2 = (t.to(self.device) for t in batch)
        alpha = self.log_alpha.exp()
        with torch.no_grad():
            a2, logp2 = self.actor(s2, self.noise(len(s2), step))
            q2 = torch.min(*(q(torch.cat([s2, a2], 1)) for q in self.q_target))  # RAISES: 1
            y = r.unsqueeze(1) + 0.95 * (q2 - alpha * logp2)  # RAISES: 2
        sa = torch.cat([s, a], 1)
        loss_q = sum(F.mse_loss(q(sa), y) for q in self.q)
        self.opt_q.zero_grad()
        loss_q.backward()
        self.opt_q.step()
        a1, logp = self.actor(s, self.noise(len(s), step + 1))
        q1 = self.q[0](torch.cat([s, a1], 1))
        loss_pi = (alpha.detach() * logp - q1).mean()
        self.opt_actor.zero_grad()
        loss_pi.backward()
        self.opt_actor.step()
        loss_alpha = -(self.log_alpha * (logp.detach() - 1.0)).mean()
        self.opt_alpha.zero_grad()
        loss_alpha.backward()
        self.opt_alpha.step()
        with torch.no_grad():
            for t, p in zip(self.q_target.parameters(), self.q.parameters()):
                t.lerp_(p, 0.05)
        return loss_q.item()


torch.manual_seed(1)
rng = random.Random(1)
agent, memory = Agent(torch.device("cuda")), Replay(200)
x, v, total, loss = 0.5, 0.0, 0.0, 0.0
for step in range(24):
    a = agent.act([x, v], step)
    v = 0.9 * v + 0.2 * a
    nx = x + 0.2 * v
    memory.push([x, v], [a], -abs(nx), [nx, v])
    x, total = nx, total - abs(nx)
    if len(memory.rows) >= 8:
        loss = agent.update(memory.sample(8, rng), step)
print(f"return {total:.3f} q loss {loss:.4f} log_alpha {agent.log_alpha.item():.4f}")
