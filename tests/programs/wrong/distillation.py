"""Knowledge distillation: a small student learns from a larger teacher."""

import torch
import torch.nn.functional as F
from torch import nn


def mlp(width):
    return nn.Sequential(nn.Linear(10, width), nn.ReLU(), nn.Linear(width, 4))


class Distiller:
    def __init__(self, teacher, student, temperature=2.0, device="cuda"):
        self.device = device
        self.teacher = teacher.eval().requires_grad_(False)  # BUG: model-not-moved culprit=self.teacher.0.weight|distiller.teacher.0.weight
        # FIX: self.teacher = teacher.eval().requires_grad_(False).to(device)
        self.student = student.to(device)
        self.temperature = temperature
        self.optimizer = torch.optim.Adam(self.student.parameters(), lr=1e-2)

    def step(self, x):
        x = x.to(self.device)
        with torch.no_grad():
            soft = F.softmax(self.teacher(x) / self.temperature, dim=-1)  # RAISES: 1
        logp = F.log_softmax(self.student(x) / self.temperature, dim=-1)
        loss = F.kl_div(logp, soft, reduction="batchmean") * self.temperature**2
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return loss.item()


torch.manual_seed(0)
distiller = Distiller(mlp(32), mlp(8))  # ALSO: 1
print([round(distiller.step(torch.randn(16, 10)), 4) for _ in range(3)])
