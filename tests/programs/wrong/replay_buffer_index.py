"""DQN in miniature; transitions are kept in host memory."""

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class Transitions(NamedTuple):
    state: Tensor
    action: Tensor
    reward: Tensor
    following: Tensor


class ReplayBuffer:
    def __init__(self, capacity: int, state_size: int):
        self.states = torch.zeros(capacity + 1, state_size)
        self.actions = torch.zeros(capacity, dtype=torch.long)
        self.rewards = torch.zeros(capacity)
        self.capacity, self.position = capacity, 0

    def push(self, state: Tensor, action: int, reward: float) -> None:
        self.states[self.position] = state
        self.actions[self.position] = action
        self.rewards[self.position] = reward
        self.position += 1

    def sample(self, batch_size: int, device: torch.device) -> Transitions:
        index = torch.randint(self.position - 1, (batch_size,), device=device)  # BUG: index culprit=index
        # FIX: index = torch.randint(self.position - 1, (batch_size,))
        fields = (self.states[index], self.actions[index], self.rewards[index], self.states[index + 1])  # RAISES: 1  # ALSO: 1
        return Transitions(*(f.to(device) for f in fields))


device = torch.device("cuda:0")
torch.manual_seed(0)
buffer = ReplayBuffer(50, 3)
policy = nn.Sequential(nn.Linear(3, 16), nn.ReLU(), nn.Linear(16, 2)).to(device)
optimizer = torch.optim.RMSprop(policy.parameters(), lr=1e-3)

state = torch.zeros(3)
for t in range(30):
    with torch.no_grad():
        action = int(policy(state.to(device)).argmax())
    buffer.push(state, action, reward=float(t % 3))
    state = torch.sin(torch.arange(3.0) + t)

for _ in range(3):
    batch = buffer.sample(8, device)
    values = policy(batch.state).gather(1, batch.action[:, None])[:, 0]
    with torch.no_grad():
        target = batch.reward + 0.9 * policy(batch.following).max(1).values
    loss = F.smooth_l1_loss(values, target)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print("trained", torch.isfinite(loss).item())
