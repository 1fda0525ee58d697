"""Double DQN on a corridor; the replay stays on the host, batches go to the device."""
import random
from collections import namedtuple

import torch
import torch.nn as nn

Batch = namedtuple("Batch", "obs act rew nxt done idx")


class Corridor:
    def __init__(self, n=8):
        self.n = n

    def reset(self):
        self.pos, self.t = 0, 0
        return self.obs()

    def obs(self):
        o = torch.zeros(self.n)
        o[self.pos] = 1.0
        return o

    def step(self, a):
        self.t += 1
        self.pos = min(self.n - 1, max(0, self.pos + (1 if a else -1)))
        win = self.pos == self.n - 1
        return self.obs(), float(win) - 0.01, win or self.t >= 30


class Replay:
    def __init__(self, size, n_obs):
        self.obs, self.nxt = torch.zeros(size, n_obs), torch.zeros(size, n_obs)
        self.act = torch.zeros(size, dtype=torch.long)
        self.rew, self.done = torch.zeros(size), torch.zeros(size)
        self.prio = torch.zeros(size)
        self.size, self.at, self.full = size, 0, 0

    def push(self, o, a, r, n, d):
        i = self.at
        self.obs[i], self.act[i], self.rew[i], self.nxt[i], self.done[i] = o, a, r, n, float(d)
        self.prio[i] = 1.0
        self.at, self.full = (i + 1) % self.size, min(self.full + 1, self.size)

    def sample(self, n, device):
        idx = torch.multinomial(self.prio[:self.full] + 1e-3, n)
        take = lambda t: t[idx].to(device)
        act = self.act[idx]  # BUG: any culprit=act
        # FIX: act = take(self.act)
        return Batch(take(self.obs), act, take(self.rew), take(self.nxt), take(self.done), idx)  # ALSO: 1

    def reweigh(self, idx, err):
        self.prio[idx] = err.abs().clamp(max=1.0)  # RAISES: 3


class Agent:
    def __init__(self, n_obs, device):
        self.device = device
        self.online = self.build(n_obs).to(device)
        self.target = self.build(n_obs)  # BUG: any culprit=self.target
        # FIX: self.target = self.build(n_obs).to(device)
        self.sync()
        self.opt = torch.optim.Adam(self.online.parameters(), lr=5e-3)

    @staticmethod
    def build(n_obs):
        return nn.Sequential(nn.Linear(n_obs, 24), nn.ReLU(), nn.Linear(24, 2))

    def sync(self):
        self.target.load_state_dict(self.online.state_dict())

    @torch.no_grad()
    def act(self, obs, eps):
        if random.random() < eps:
            return random.randrange(2)
        return self.online(obs.to(self.device)).argmax().item()

    def learn(self, replay, gamma=0.95):
        b = replay.sample(32, self.device)
        q = self.online(b.obs).gather(1, b.act.unsqueeze(1)).squeeze(1)  # RAISES: 1
        with torch.no_grad():
            best = self.online(b.nxt).argmax(1, keepdim=True)
            future = self.target(b.nxt).gather(1, best).squeeze(1)  # RAISES: 2
        err = b.rew + gamma * (1 - b.done) * future - q
        loss = err.square().mean()
        self.opt.zero_grad()
        loss.backward()
        self.opt.step()
        replay.reweigh(b.idx, err.detach())  # BUG: any culprit=err
        # FIX: replay.reweigh(b.idx, err.detach().cpu())
        return loss.item()


def main():
    random.seed(0)
    torch.manual_seed(0)
    env, agent, replay = Corridor(), Agent(8, torch.device("cuda")), Replay(500, 8)
    for episode in range(8):
        o, done, ret, losses = env.reset(), False, 0.0, [0.0]
        while not done:
            a = agent.act(o, eps=max(0.1, 0.9 - 0.15 * episode))
            n, r, done = env.step(a)
            replay.push(o, a, r, n, done)
            o, ret = n, ret + r
            if replay.full >= 32 and env.t % 2 == 0:
                losses.append(agent.learn(replay))
        agent.sync()
        print(f"episode {episode} return {ret:.2f} loss {losses[-1]:.5f}")


main()
