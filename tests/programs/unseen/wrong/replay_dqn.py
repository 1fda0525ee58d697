from __future__ import annotations

import copy
import random
from collections import deque
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn


class Transition(NamedTuple):
    state: np.ndarray
    action: int
    reward: float
    next_state: np.ndarray
    done: bool


class Batch(NamedTuple):
    state: Tensor
    action: Tensor
    reward: Tensor
    next_state: Tensor
    done: Tensor


@dataclass
class DQNConfig:
    obs: int = 3
    actions: int = 2
    gamma: float = 0.95
    batch: int = 16
    device: str = "cuda:0" if torch.cuda.is_available() else "cpu"
    hidden: list[int] = field(default_factory=lambda: [16])


class Replay:
    def __init__(self, capacity: int, device: str) -> None:
        self.buf: deque[Transition] = deque(maxlen=capacity)
        self.device = device

    def push(self, *args) -> None:
        self.buf.append(Transition(*args))

    def sample(self, n: int) -> Batch:
        rows = random.sample(self.buf, n)
        s, a, r, ns, d = zip(*rows)
        return Batch(
            torch.as_tensor(np.stack(s), dtype=torch.float32, device=self.device),
            torch.as_tensor(a, device=self.device),
            torch.as_tensor(r, dtype=torch.float32),  # BUG: any culprit=batch.reward
            # FIX: torch.as_tensor(r, dtype=torch.float32, device=self.device),
            torch.as_tensor(np.stack(ns), dtype=torch.float32, device=self.device),
            torch.as_tensor(d, dtype=torch.float32, device=self.device),
        )


class Agent:
    def __init__(self, cfg: DQNConfig) -> None:
        self.cfg = cfg
        self.online = nn.Sequential(nn.Linear(cfg.obs, cfg.hidden[0]), nn.Tanh(), nn.Linear(cfg.hidden[0], cfg.actions))
        self.target = copy.deepcopy(self.online)  # BUG: any culprit=self.target
        # FIX: self.target = copy.deepcopy(self.online).to(cfg.device)
        self.online.to(cfg.device)  # ALSO: 2
        self.opt = torch.optim.SGD(self.online.parameters(), lr=0.05)

    @torch.no_grad()
    def act(self, obs: np.ndarray) -> int:
        x = torch.from_numpy(obs).float()  # BUG: any culprit=x
        # FIX: x = torch.from_numpy(obs).float().to(self.cfg.device)
        return int(self.online(x).argmax())  # RAISES: 3

    def learn(self, batch: Batch) -> float:
        q = self.online(batch.state).gather(1, batch.action.unsqueeze(1)).squeeze(1)
        with torch.no_grad():
            best = self.target(batch.next_state).max(dim=1).values  # RAISES: 2
            goal = batch.reward + self.cfg.gamma * (1 - batch.done) * best  # RAISES: 1
        loss = nn.functional.smooth_l1_loss(q, goal)
        self.opt.zero_grad()
        loss.backward()
        self.opt.step()
        return loss.item()


def main() -> None:
    random.seed(1)
    rng = np.random.default_rng(1)
    torch.manual_seed(1)
    cfg = DQNConfig()
    agent, memory = Agent(cfg), Replay(200, cfg.device)
    obs = rng.normal(size=cfg.obs)
    for t in range(60):
        a = agent.act(obs)
        nxt = 0.9 * obs + 0.1 * rng.normal(size=cfg.obs) + (0.1 if a else -0.1)
        memory.push(obs, a, float(-abs(nxt).sum()), nxt, t % 10 == 9)
        obs = nxt
        if len(memory.buf) >= cfg.batch:
            last = agent.learn(memory.sample(cfg.batch))
    print("td loss", round(last, 4))


main()
