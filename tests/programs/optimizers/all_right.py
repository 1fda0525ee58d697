"""Optimizers that are made first, hold a part, or hold something else on purpose: nothing is wrong with any of them."""

import copy

import torch
from torch import nn
from torch.nn.utils import parametrizations, prune

torch.manual_seed(0)
x = torch.randn(3, 4, device="cuda")


def made():
    return nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))


def train(model, *optimizers, steps=3):
    for _ in range(steps):
        for optimizer in optimizers:
            optimizer.zero_grad()
        model(x).square().mean().backward()
        for optimizer in optimizers:
            optimizer.step()


# Moving, converting and compiling keep the parameters.
model = made()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
model.cuda()
train(model, optimizer)
train(torch.compile(model), optimizer)


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.one, self.two = nn.Linear(4, 4, bias=False), nn.Linear(4, 4, bias=False)

    def forward(self, x):
        return self.two(self.one(x))


# Tied afterwards: what is left of the other one does no harm.
tied = Tied().cuda()
optimizer = torch.optim.SGD(tied.parameters(), lr=0.1)
tied.two.weight = tied.one.weight
train(tied, optimizer)

# A part of a model, and the rest frozen, or not.
model = made().cuda()
optimizer = torch.optim.SGD(model[2].parameters(), lr=0.1)
train(model, optimizer)
model[0].requires_grad_(False)
train(model, optimizer)

# A new head with an optimizer of its own, beside the old one's.
model[2] = nn.Linear(8, 2).cuda()
train(model, optimizer, torch.optim.SGD(model[2].parameters(), lr=0.1))

# A new head that is not trained.
model = made().cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
model[2] = nn.Linear(8, 1).cuda().requires_grad_(False)
average = copy.deepcopy(model)
train(model, optimizer)

# What keeps a parameter under another name.
layer = nn.Linear(4, 4).cuda()
optimizer = torch.optim.Adam(layer.parameters())
parametrizations.spectral_norm(layer)
train(layer, optimizer)
layer = nn.Linear(4, 4).cuda()
optimizer = torch.optim.Adam(layer.parameters())
prune.random_unstructured(layer, "weight", 0.5)
train(layer, optimizer)

# A step before there is any gradient.
model = made().cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
optimizer.step()
train(model, optimizer)

# Parameters in full precision beside those of the model.
model = made().cuda().bfloat16()
masters = [p.detach().clone().float().requires_grad_() for p in model.parameters()]
optimizer = torch.optim.SGD(masters, lr=0.1)
for _ in range(2):
    model(x.bfloat16()).mean().backward()
    for parameter, master in zip(model.parameters(), masters):
        master.grad, parameter.grad = parameter.grad.float(), None
    optimizer.step()
    with torch.no_grad():
        for parameter, master in zip(model.parameters(), masters):
            parameter.copy_(master)

# Parameters may be swapped: nothing may hold them.
layer = nn.Linear(4, 4).cuda()
optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
torch.__future__.set_swap_module_params_on_conversion(True)
layer.double()
torch.__future__.set_swap_module_params_on_conversion(False)
train(layer.float(), optimizer)
print("done")
