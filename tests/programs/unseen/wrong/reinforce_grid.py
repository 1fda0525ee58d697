"""REINFORCE with a legal-move mask on a small grid."""
import torch
from torch import nn
from torch.distributions import Categorical

SIDE = 4
GOAL = SIDE * SIDE - 1
MOVES = {0: (-1, 0), 1: (1, 0), 2: (0, -1), 3: (0, 1)}


def legal_table():
    table = torch.zeros(SIDE * SIDE, 4, dtype=torch.bool)
    for s in range(SIDE * SIDE):
        r, c = divmod(s, SIDE)
        for a, (dr, dc) in MOVES.items():
            table[s, a] = 0 <= r + dr < SIDE and 0 <= c + dc < SIDE
    return table


class Grid:
    def reset(self):
        self.s, self.t = 0, 0
        return self.s

    def step(self, a):
        r, c = divmod(self.s, SIDE)
        dr, dc = MOVES[a]
        self.s = (r + dr) * SIDE + c + dc
        self.t += 1
        done = self.s == GOAL or self.t >= 24
        return self.s, (1.0 if self.s == GOAL else -0.04), done


class Policy(nn.Module):
    def __init__(self, hidden=32):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(SIDE * SIDE, hidden), nn.Tanh(), nn.Linear(hidden, 4))
        self.legal = legal_table()  # BUG: any culprit=self.legal
        # FIX: self.register_buffer("legal", legal_table())
        self.register_buffer("onehot", torch.eye(SIDE * SIDE))

    def forward(self, states):
        logits = self.net(self.onehot[states])
        return Categorical(logits=logits.masked_fill(~self.legal[states], -1e9))  # RAISES: 1


def discounted(rewards, gamma=0.95):
    out, running = [], 0.0
    for r in reversed(rewards):
        running = r + gamma * running
        out.append(running)
    return out[::-1]


def rollout(env, policy, device):
    states, actions, rewards = [], [], []
    s, done = env.reset(), False
    while not done:
        with torch.no_grad():
            a = policy(torch.tensor([s], device=device)).sample().item()
        states.append(s)
        actions.append(a)
        s, r, done = env.step(a)
        rewards.append(r)
    return states, actions, rewards


def train(device, iterations=25):
    torch.manual_seed(3)
    policy = Policy().to(device)
    opt = torch.optim.RMSprop(policy.parameters(), lr=5e-3)
    env, lengths = Grid(), []
    for it in range(iterations):
        S, A, R = [], [], []
        for _ in range(4):
            s, a, r = rollout(env, policy, device)
            S += s
            A += a
            R += discounted(r)
            lengths.append(len(r))
        states = torch.tensor(S, device=device)
        actions = torch.tensor(A)  # BUG: any culprit=actions
        # FIX: actions = torch.tensor(A, device=device)
        returns = torch.tensor(R)  # BUG: any culprit=returns
        # FIX: returns = torch.tensor(R, device=device)
        advantage = (returns - returns.mean()) / (returns.std() + 1e-6)
        dist = policy(states)
        loss = -(dist.log_prob(actions) * advantage).mean() - 0.01 * dist.entropy().mean()  # RAISES: 2  # RAISES: 3
        opt.zero_grad()
        loss.backward()
        opt.step()
        if it % 8 == 0:
            print(it, f"{loss.item():.4f}", sum(lengths[-4:]) / 4)


train("cuda")
