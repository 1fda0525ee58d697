"""Recurrent actor on one card, critic on the other; a drifting two armed bandit."""
import numpy as np
import torch
import torch.nn as nn
from torch.distributions import Categorical


class Bandit:
    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)

    def reset(self):
        self.good = int(self.rng.integers(2))
        self.t = 0
        return np.zeros(4, dtype=np.float32)

    def pull(self, arm):
        self.t += 1
        win = float(self.rng.random() < (0.9 if arm == self.good else 0.2))
        obs = np.zeros(4, dtype=np.float32)
        obs[arm], obs[2], obs[3] = 1.0, win, self.t / 10
        return obs, win, self.t >= 10


class Actor(nn.Module):
    def __init__(self, hidden=16):
        super().__init__()
        self.cell = nn.GRUCell(4, hidden)
        self.pi = nn.Linear(hidden, 2)
        self.hidden = hidden

    def begin(self):
        return torch.zeros(1, self.hidden)  # BUG: any
        # FIX: return torch.zeros(1, self.hidden, device=self.pi.weight.device)

    def forward(self, obs, h):
        h = self.cell(obs, h)  # RAISES: 1
        return Categorical(logits=self.pi(h)), h


class Trainer:
    def __init__(self, actor_card, critic_card):
        self.ca, self.cc = torch.device(actor_card), torch.device(critic_card)
        self.actor = Actor().to(self.ca)
        self.critic = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 1)).to(self.cc)
        self.opt = torch.optim.Adam([*self.actor.parameters(), *self.critic.parameters()], lr=1e-2)

    def rollout(self, env):
        obs, done, h = env.reset(), False, self.actor.begin()
        seen, logp, ent, rewards = [], [], [], []
        while not done:
            o = torch.from_numpy(obs).unsqueeze(0)
            seen.append(o)
            dist, h = self.actor(o.to(self.ca), h)
            arm = dist.sample()
            logp.append(dist.log_prob(arm))
            ent.append(dist.entropy())
            obs, r, done = env.pull(arm.item())
            rewards.append(r)
        return torch.cat(seen), torch.cat(logp), torch.cat(ent), rewards

    def returns(self, rewards, gamma=0.9):
        out, run = [], 0.0
        for r in reversed(rewards):
            run = r + gamma * run
            out.append(run)
        return torch.tensor(out[::-1])  # BUG: any
        # FIX: return torch.tensor(out[::-1], device=self.cc)

    def losses(self, seen, logp, ent, rewards):
        value = self.critic(seen.to(self.cc)).squeeze(1)
        target = self.returns(rewards)
        miss = target - value  # RAISES: 2
        adv = miss.detach()  # BUG: any culprit=adv
        # FIX: adv = miss.detach().to(self.ca)
        adv = (adv - adv.mean()) / (adv.std() + 1e-6)
        policy = -(logp * adv).mean() - 0.01 * ent.mean()  # RAISES: 3  # ALSO: 3
        return policy, miss.square().mean()

    def update(self, episodes):
        policy, value = 0.0, 0.0
        for ep in episodes:
            p, v = self.losses(*ep)
            policy, value = policy + p, value + v
        self.opt.zero_grad()
        policy.backward()
        value.backward()
        self.opt.step()
        return policy.item() / len(episodes), value.item() / len(episodes)


def main():
    torch.manual_seed(31)
    env, trainer = Bandit(5), Trainer("cuda:0", "cuda:1")
    for it in range(6):
        episodes = [trainer.rollout(env) for _ in range(4)]
        p, v = trainer.update(episodes)
        gain = np.mean([sum(ep[3]) for ep in episodes])
        print(f"iter {it} gain {gain:.2f} policy {p:.4f} value {v:.4f}")


main()
