"""Features that a name keeps until the next ones are there: two sets of them are held at a time."""

import torch
from torch import nn


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.project = nn.Linear(64, 20480, bias=False)

    def forward(self, x):
        return self.project(x)


@torch.inference_mode()
def extract(batches):
    encoder, sums = Encoder().cuda(), []
    for number, batch in enumerate(batches):
        features = encoder(batch.cuda())  # BUG: out-of-memory culprit=features
        sums.append(features.mean().item() * number)
        # ADD: del features
    return sums


torch.manual_seed(0)
print([round(value, 3) for value in extract([torch.ones(1024, 64) * n for n in range(3)])])
