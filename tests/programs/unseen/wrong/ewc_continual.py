"""Elastic weight consolidation over a sequence of tasks."""
import json
import torch
import torch.nn as nn
import torch.nn.functional as F

CONFIG = json.loads('{"lr": 0.1, "lambda": 5.0, "tasks": 3, "epochs": 4, "gpu": true}')


class Learner:
    def __init__(self, config):
        self.config = config
        self.device = "cuda" if config["gpu"] and torch.cuda.is_available() else "cpu"
        self.net = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2)).to(self.device)
        self.opt = torch.optim.SGD(self.net.parameters(), lr=config["lr"])
        self.fisher = {}
        self.anchor = {}

    def penalty(self):
        loss = torch.zeros((), device=self.device)
        for n, p in self.net.named_parameters():
            if n in self.fisher:
                loss = loss + (self.fisher[n] * (p - self.anchor[n]) ** 2).sum()  # RAISES: 2
        return loss

    def fit(self, x, y):
        x, y = x.to(self.device), y.to(self.device)
        for _ in range(self.config["epochs"]):
            loss = F.cross_entropy(self.net(x), y) + self.config["lambda"] * self.penalty()
            self.opt.zero_grad()
            loss.backward()
            self.opt.step()
        return loss.item()

    def consolidate(self, x, y):
        fresh = {n: torch.zeros(p.shape) for n, p in self.net.named_parameters()}  # BUG: any culprit=fresh
        # FIX: fresh = {n: torch.zeros(p.shape, device=self.device) for n, p in self.net.named_parameters()}
        for xi, yi in zip(x.to(self.device), y.to(self.device)):
            self.net.zero_grad()
            F.cross_entropy(self.net(xi[None]), yi[None]).backward()
            for n, p in self.net.named_parameters():
                fresh[n] += p.grad ** 2 / len(x)  # RAISES: 1
        for n, f in fresh.items():
            self.fisher[n] = self.fisher.get(n, 0) + f
        self.anchor = {n: p.detach().cpu() for n, p in self.net.named_parameters()}  # BUG: any culprit=self.anchor
        # FIX: self.anchor = {n: p.detach().clone() for n, p in self.net.named_parameters()}

    @torch.no_grad()
    def accuracy(self, x, y):
        return (self.net(x.to(self.device)).argmax(1).cpu() == y).float().mean().item()


def task(i, n=16):
    x = torch.sin(torch.arange(n * 4.0) * (i + 1)).view(n, 4)
    return x, (x[:, i] > 0).long()


torch.manual_seed(0)
learner = Learner(CONFIG)
for i in range(CONFIG["tasks"]):
    x, y = task(i)
    last = learner.fit(x, y)
    learner.consolidate(x, y)
print("%.4f" % last, [round(learner.accuracy(*task(i)), 3) for i in range(CONFIG["tasks"])])
