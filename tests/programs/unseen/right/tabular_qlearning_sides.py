"""A table of values on the card, an environment on the host. Integers travel as numbers."""
import random

import numpy as np
import torch

DEV = torch.device("cuda") if torch.cuda.is_available() else torch.device("cpu")
SIZE, ACTIONS = 5, 4
MOVES = torch.tensor([[0, 1], [1, 0], [0, -1], [-1, 0]])


class Grid:
    def __init__(self):
        self.goal = torch.tensor([SIZE - 1, SIZE - 1])
        self.walls = {(1, 1), (2, 3), (3, 1)}
        self.reset()

    def reset(self):
        self.at = torch.zeros(2, dtype=torch.long)
        return self.state()

    def state(self):
        return int(self.at[0] * SIZE + self.at[1])

    def step(self, action):
        new = (self.at + MOVES[action]).clamp(0, SIZE - 1)
        if tuple(new.tolist()) not in self.walls:
            self.at = new
        done = torch.equal(self.at, self.goal)
        return self.state(), 1.0 if done else -0.01, done


class Traces:
    """Eligibility, on the card, updated by scalars of the host."""

    def __init__(self, decay):
        self.decay = torch.tensor(decay)
        self.e = torch.zeros(SIZE * SIZE, ACTIONS, device=DEV)

    def visit(self, s, a):
        self.e.mul_(self.decay)
        self.e[s, a] = 1.0

    def reset(self):
        self.e.zero_()


q = torch.zeros(SIZE * SIZE, ACTIONS, device=DEV)
visits = np.zeros((SIZE * SIZE,), dtype=np.int64)
env, traces = Grid(), Traces(0.8)
rng = random.Random(2)
lr, gamma = torch.tensor(0.3), 0.95
lengths = []
for episode in range(30):
    s = env.reset()
    traces.reset()
    for t in range(60):
        if rng.random() < max(0.05, 0.5 - episode * 0.03):
            a = rng.randrange(ACTIONS)
        else:
            row = q[s] + 1e-6 * torch.arange(ACTIONS, device=q.device)
            a = row.argmax().item()
        s2, r, done = env.step(a)
        visits[s] += 1
        target = r + gamma * q[s2].max() * (not done)
        delta = target - q[s, a]
        traces.visit(s, a)
        q += lr * delta * traces.e
        s = s2
        if done:
            break
    lengths.append(t + 1)

print("lengths", lengths[:3], lengths[-3:])
greedy = q.argmax(1).cpu().numpy()
path, s = [], env.reset()
for _ in range(12):
    s, _, done = env.step(int(greedy[s]))
    path.append(s)
    if done:
        break
print("path", path)
most = torch.from_numpy(visits).topk(3).indices
print("most visited", sorted(most.tolist()), f"{q[most].max().item():.3f}")
q[most] = q.new_zeros(ACTIONS)  # indices of the host, values of the card
q[0] = torch.arange(float(ACTIONS))  # a copy
mask = torch.from_numpy(visits == 0)
q[mask] = -1.0  # a mask of the host, a number
print(f"{q.sum().item():.3f}")
