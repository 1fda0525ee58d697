"""A validation loss that is added up as a tensor, with gradients on: the sum keeps the graph of every batch."""

import torch
from torch import nn


class Validation:
    def __init__(self, model):
        self.model = model
        self.total = 0.0

    def run(self, batches):
        for step in range(batches):
            x = torch.full((512, 1024), step / batches, device="cuda")
            out = self.model(x)  # RAISES: 1
            self.total += (out - x).square().mean() / batches  # BUG: out-of-memory culprit=self.total
            # FIX: self.total += ((out - x).square().mean() / batches).detach()
        print(f"{float(self.total) > 0}")


def main():
    torch.manual_seed(0)
    Validation(nn.Linear(1024, 1024).cuda()).run(60)


main()
