"""A replay buffer in host memory, sampled with host indices, moved batch by batch."""
import random
from collections import deque

import torch
import torch.nn.functional as F
from torch import nn

random.seed(0)
torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
q, q_target = nn.Linear(4, 2).to(device), nn.Linear(4, 2).to(device)
q_target.load_state_dict(q.state_dict())
optimizer = torch.optim.Adam(q.parameters(), lr=1e-2)
memory = deque(maxlen=100)
rewards = torch.zeros(60)

state = torch.zeros(4)
for t in range(60):
    with torch.no_grad():
        action = q(state.to(device)).argmax().cpu()
    following = torch.cos(torch.arange(4.0) * t)
    rewards[t] = float(following.sum() > 0)
    memory.append((state, action, rewards[t], following))
    state = following
    if len(memory) >= 16 and t % 8 == 0:
        states, actions, reward, nexts = (torch.stack(column).to(device) for column in zip(*random.sample(memory, 16)))
        with torch.no_grad():
            target = reward + 0.9 * q_target(nexts).amax(1)
        loss = F.smooth_l1_loss(q(states).gather(1, actions[:, None]).squeeze(1), target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        for a, b in zip(q_target.parameters(), q.parameters()):
            a.data.lerp_(b.data, 0.1)
print(len(memory), memory[0][0].device, rewards.sum().item() > 0)
