"""Warm up on the CPU, then go on on the GPU with the same optimizer."""
import torch
from torch import nn


class Experiment:
    def __init__(self):
        torch.manual_seed(0)
        self.model = nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, 1))
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.01, momentum=0.9)  # ALSO: 1
        self.x = torch.linspace(-1, 1, 30).view(10, 3)

    def step(self):
        self.optimizer.zero_grad()
        loss = self.model(self.x).square().mean()
        loss.backward()
        self.optimizer.step()  # RAISES: 1  # ALSO: 1
        return loss.item()

    def move(self, device):
        self.model.to(device)  # BUG: optimizer-state culprit=self.optimizer.state[self.model.0.weight]["momentum_buffer"]|experiment.optimizer.state[experiment.model.0.weight]["momentum_buffer"]
        # ADD: for state in self.optimizer.state.values():
            # ADD: state["momentum_buffer"] = state["momentum_buffer"].to(device)
        self.x = self.x.to(device)


experiment = Experiment()
print("cpu", [round(experiment.step(), 5) for _ in range(2)])
experiment.move("cuda:0")
print("gpu", [round(experiment.step(), 5) for _ in range(2)])
