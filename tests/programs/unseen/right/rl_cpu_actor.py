"""Actor on the host, learner on the GPU; weights are copied across every few steps."""
import copy
import numpy as np
import torch
from torch import nn


def mlp():
    return nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 2))


class Learner:
    def __init__(self, device):
        self.device = device
        self.net = mlp().to(device)
        self.opt = torch.optim.Adam(self.net.parameters(), lr=1e-2)

    def update(self, obs, act, ret):
        obs = torch.as_tensor(np.asarray(obs), dtype=torch.float32, device=self.device)
        act = torch.as_tensor(act, device=self.device)
        ret = torch.as_tensor(ret, dtype=torch.float32).to(self.device)
        logp = self.net(obs).log_softmax(-1).gather(1, act[:, None]).squeeze(1)
        loss = -(logp * (ret - ret.mean())).mean()
        self.opt.zero_grad()
        loss.backward()
        self.opt.step()
        return loss.item()


torch.manual_seed(6)
learner = Learner(torch.device("cuda" if torch.cuda.is_available() else "cpu"))
actor = copy.deepcopy(learner.net).cpu()
state = np.array([0.1, -0.2, 0.3], dtype=np.float32)
losses = []
for it in range(4):
    obs, acts, rets = [], [], []
    for t in range(10):
        with torch.no_grad():
            a = actor(torch.from_numpy(state)).argmax().item()
        obs.append(state.copy())
        acts.append(a)
        state = np.sin(state * 1.3 + a - 0.4 * t).astype(np.float32)
        rets.append(float(state.sum()))
    losses.append(learner.update(obs, acts, rets))
    actor.load_state_dict(learner.net.state_dict())
print(["%.4f" % v for v in losses])
