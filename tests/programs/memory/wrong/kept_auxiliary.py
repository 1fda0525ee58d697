"""A second loss that is only recorded: nobody calls backward() on it, and the weights it was made of are changed."""

import collections

import torch
from torch import nn


class Trainer:
    def __init__(self):
        self.model = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 2)).cuda()
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.01)
        self.logs = collections.defaultdict(list)

    def step(self, x):
        main, second = self.model(x).unbind(1)
        self.optimizer.zero_grad()
        main.square().mean().backward(retain_graph=True)
        self.optimizer.step()
        self.logs["second"].append(second.abs().mean())  # BUG: memory-grows culprit=trainer.logs["second"] # RAISES: none
        # FIX: self.logs["second"].append(second.abs().mean().detach())


def main():
    torch.manual_seed(0)
    trainer = Trainer()
    for step in range(24):
        trainer.step(torch.full((4, 8), step / 24, device="cuda"))
    print(len(trainer.logs["second"]))


main()
