# compare: exact
# devices: 1
"""Deep Q-learning on a corridor: the replay buffer stays on the host, batches go to the device, actions come back."""

import random
from collections import deque, namedtuple

import torch
import torch.nn as nn
import torch.nn.functional as F

Transition = namedtuple("Transition", ("state", "action", "next_state", "reward"))
LENGTH, GAMMA, BATCH = 8, 0.9, 32


class Corridor:
    """Walk right to the end: reward 1 there, a small cost everywhere else."""

    def reset(self):
        self.position = 0
        return self.observe()

    def observe(self):
        return F.one_hot(torch.tensor(self.position), LENGTH).float()

    def step(self, action):
        self.position = max(0, self.position + (1 if action == 1 else -1))
        done = self.position == LENGTH - 1
        return (None if done else self.observe()), (1.0 if done else -0.02), done


class ReplayMemory:
    def __init__(self, capacity):
        self.memory = deque([], maxlen=capacity)

    def push(self, *args):
        self.memory.append(Transition(*args))

    def sample(self, size):
        return random.sample(self.memory, size)


random.seed(0)
torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "mps" if torch.backends.mps.is_available() else "cpu")
policy = nn.Sequential(nn.Linear(LENGTH, 24), nn.ReLU(), nn.Linear(24, 2)).to(device)
target = nn.Sequential(nn.Linear(LENGTH, 24), nn.ReLU(), nn.Linear(24, 2)).to(device)
target.load_state_dict(policy.state_dict())
optimizer = torch.optim.SGD(policy.parameters(), lr=0.1)
memory, environment, steps = ReplayMemory(500), Corridor(), 0


def optimize():
    if len(memory.memory) < BATCH:
        return None
    batch = Transition(*zip(*memory.sample(BATCH)))
    alive = torch.tensor([s is not None for s in batch.next_state], device=device)
    following = torch.stack([s for s in batch.next_state if s is not None]).to(device)
    state, action = torch.stack(batch.state).to(device), torch.tensor(batch.action, device=device)
    reward = torch.tensor(batch.reward, device=device)
    value = policy(state).gather(1, action.unsqueeze(1))
    next_value = torch.zeros(BATCH, device=device)
    with torch.no_grad():
        next_value[alive] = target(following).max(1).values
    loss = F.smooth_l1_loss(value, (next_value * GAMMA + reward).unsqueeze(1))
    optimizer.zero_grad()
    loss.backward()
    torch.nn.utils.clip_grad_value_(policy.parameters(), 1.0)
    optimizer.step()
    return loss.item()


for episode in range(14):
    state, total, loss = environment.reset(), 0.0, None
    for _ in range(30):
        steps += 1
        if random.random() < max(0.1, 0.9 - steps / 200):
            action = random.randrange(2)
        else:
            with torch.no_grad():
                action = policy(state.to(device).unsqueeze(0)).argmax(1).item()
        following, reward, done = environment.step(action)
        memory.push(state, action, following, reward)
        state, total = following, total + reward
        loss = optimize()
        soft = target.state_dict()
        for key, value in policy.state_dict().items():
            soft[key] = value * 0.05 + soft[key] * 0.95
        target.load_state_dict(soft)
        if done:
            break
    print(f"episode {episode} return {total:.2f} loss {loss if loss is None else round(loss, 6)}")
