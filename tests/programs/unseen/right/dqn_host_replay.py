"""Double DQN on a chain; the replay memory is host RAM by design."""
import collections
import random

import torch
import torch.nn as nn

Transition = collections.namedtuple("Transition", "state action reward nxt done")


class Chain:
    n = 8

    def __init__(self, rng):
        self.rng = rng

    def reset(self):
        self.pos, self.t = 2, 0
        return self.observe()

    def observe(self):
        return torch.nn.functional.one_hot(torch.tensor(self.pos), self.n).float()

    def step(self, action):
        self.t += 1
        if self.rng.random() < 0.1:
            action = 1 - action
        self.pos = max(0, min(self.n - 1, self.pos + (1 if action else -1)))
        reward = 1.0 if self.pos == self.n - 1 else (0.05 if self.pos == 0 else 0.0)
        return self.observe(), reward, self.pos == self.n - 1 or self.t >= 30


class HostReplay:
    def __init__(self, size, width):
        self.state = torch.zeros(size, width)
        self.nxt = torch.zeros(size, width)
        self.action = torch.zeros(size, dtype=torch.long)
        self.reward = torch.zeros(size)
        self.done = torch.zeros(size)
        self.fill = self.head = 0
        self.size = size

    def push(self, tr):
        for name, value in tr._asdict().items():
            getattr(self, name)[self.head] = value
        self.head = (self.head + 1) % self.size
        self.fill = min(self.fill + 1, self.size)

    def sample(self, n, device):
        rows = torch.randint(self.fill, (n,))
        return Transition(*(getattr(self, f)[rows].to(device) for f in Transition._fields))


def q_net(width):
    return nn.Sequential(nn.Linear(width, 24), nn.ReLU(), nn.Linear(24, 2))


def td_loss(online, target, batch, gamma=0.95):
    q = online(batch.state).gather(1, batch.action[:, None]).squeeze(1)
    with torch.no_grad():
        pick = online(batch.nxt).argmax(1, keepdim=True)
        boot = target(batch.nxt).gather(1, pick).squeeze(1)
        goal = batch.reward + gamma * (1 - batch.done) * boot
    return nn.functional.smooth_l1_loss(q, goal)


def main():
    torch.manual_seed(41)
    rng = random.Random(41)
    device = torch.device("cuda")
    online, target = q_net(Chain.n).to(device), q_net(Chain.n).to(device)
    target.load_state_dict(online.state_dict())
    opt = torch.optim.Adam(online.parameters(), lr=5e-3)
    env, memory = Chain(rng), HostReplay(500, Chain.n)
    state = env.reset()
    for t in range(240):
        if rng.random() < 0.3:
            action = rng.randrange(2)
        else:
            action = online(state.to(device)).argmax().item()
        nxt, reward, done = env.step(action)
        memory.push(Transition(state, torch.tensor(action), reward, nxt, float(done)))
        state = env.reset() if done else nxt
        if t >= 40 and t % 2 == 0:
            loss = td_loss(online, target, memory.sample(24, device))
            opt.zero_grad()
            loss.backward()
            opt.step()
        if t % 40 == 39:
            target.load_state_dict(online.state_dict())
    print("loss", round(loss.item(), 5))
    values = online(torch.eye(Chain.n).to(device)).max(1).values
    print("values", [round(v, 3) for v in values.tolist()], "policy mean reward", round(memory.reward[:memory.fill].mean().item(), 4))


main()
