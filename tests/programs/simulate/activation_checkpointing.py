# compare: none (dropout draws from the device's generator)
# devices: 1
"""torch.utils.checkpoint, both kinds, with dropout: gradients must equal those of the plain run under the same seed."""

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint, checkpoint_sequential

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.fc = nn.Linear(width, width)
        self.drop = nn.Dropout(0.5)

    def forward(self, x):
        return x + self.drop(torch.relu(self.fc(x)))


class Stack(nn.Module):
    def __init__(self, mode):
        super().__init__()
        self.mode = mode
        self.blocks = nn.Sequential(*[Block(16) for _ in range(4)])

    def forward(self, x):
        if self.mode == "sequential":
            return checkpoint_sequential(self.blocks, 2, x, use_reentrant=False)
        for block in self.blocks:
            x = block(x) if self.mode == "plain" else checkpoint(block, x, use_reentrant=self.mode == "reentrant")
        return x


def gradients(mode):
    torch.manual_seed(0)
    model = Stack(mode).to(device)
    x = torch.linspace(-1, 1, 64).view(4, 16).to(device).requires_grad_()
    torch.manual_seed(42)
    loss = model(x).square().mean()
    loss.backward()
    return loss, [x.grad] + [p.grad for p in model.parameters()]


expected_loss, expected = gradients("plain")
for mode in ("reentrant", "non-reentrant", "sequential"):
    loss, actual = gradients(mode)
    print(mode, "same loss", torch.equal(loss, expected_loss), "same gradients", all(map(torch.equal, actual, expected)))

# The recomputation must leave the generator where the forward left it.
torch.manual_seed(1)
x = torch.ones(8, 16, device=device, requires_grad=True)
block = Block(16).to(device)
checkpoint(block, x, use_reentrant=False).sum().backward()
with_checkpoint = torch.rand(4, device=device)
torch.manual_seed(1)
x = torch.ones(8, 16, device=device, requires_grad=True)
block = Block(16).to(device)
block(x).sum().backward()
print("generator left alone", torch.equal(with_checkpoint, torch.rand(4, device=device)))
