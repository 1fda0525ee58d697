"""Advantage actor-critic on a toy environment; the rollout is kept as Python lists."""
import torch
from torch import nn
from torch.distributions import Categorical

DEVICE = torch.device("cuda:0")
GAMMA = 0.9


class Corridor:
    def __init__(self, length=6):
        self.length = length

    def reset(self):
        self.position = 0
        return self._observe()

    def _observe(self):
        return [float(self.position == i) for i in range(self.length)]

    def step(self, action):
        self.position = max(0, min(self.length - 1, self.position + (1 if action else -1)))
        done = self.position == self.length - 1
        return self._observe(), 1.0 if done else -0.1, done


class ActorCritic(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.body = nn.Linear(n, 16)
        self.pi, self.v = nn.Linear(16, 2), nn.Linear(16, 1)

    def forward(self, x):
        h = torch.tanh(self.body(x))
        return Categorical(logits=self.pi(h)), self.v(h).squeeze(-1)


def discounted(rewards):
    running, out = 0.0, []
    for r in reversed(rewards):
        running = r + GAMMA * running
        out.insert(0, running)
    return torch.tensor(out)  # BUG: default-device culprit=returns
    # FIX: return torch.tensor(out, device=DEVICE)


torch.manual_seed(3)
env, net = Corridor(), ActorCritic(6).to(DEVICE)
optim = torch.optim.Adam(net.parameters(), lr=0.02)
for episode in range(3):
    state, log_probs, state_values, rewards = env.reset(), [], [], []
    for _ in range(15):
        dist, value = net(torch.tensor(state, device=DEVICE))
        action = dist.sample()
        state, reward, done = env.step(action.item())
        log_probs.append(dist.log_prob(action))
        state_values.append(value)
        rewards.append(reward)
        if done:
            break
    returns = discounted(rewards)  # ALSO: 1
    estimates = torch.stack(state_values)
    advantage = returns - estimates.detach()  # RAISES: 1
    loss = -(torch.stack(log_probs) * advantage).sum() + nn.functional.mse_loss(estimates, returns)
    optim.zero_grad()
    loss.backward()
    optim.step()
print("episodes", episode + 1)
