"""Gradients are averaged on the host (as a parameter server would) and put back."""

import torch
from torch import nn

workers = [torch.device("cuda:0"), torch.device("cuda:1")]


def average(gradients):
    return [torch.stack([g.cpu() for g in each]).mean(0) for each in zip(*gradients)]


def put_back(model, averaged):
    for p, g in zip(model.parameters(), averaged):
        p.grad = g  # BUG: gradient culprit=g  # RAISES: 1
        # FIX: p.grad = g.to(p.device)


torch.manual_seed(0)
models = [nn.Linear(3, 1).to(device) for device in workers]
models[1].load_state_dict(models[0].state_dict())
optimizers = [torch.optim.SGD(m.parameters(), lr=0.1) for m in models]
x = torch.randn(16, 3)
for step in range(2):
    gradients = []
    for model, device, part in zip(models, workers, x.chunk(2)):
        loss = model(part.to(device)).pow(2).mean()
        gradients.append(torch.autograd.grad(loss, list(model.parameters())))
    averaged = average(gradients)
    for model, optimizer in zip(models, optimizers):
        put_back(model, averaged)
        optimizer.step()
print("same:", all(torch.equal(a.cpu(), b.cpu()) for a, b in zip(models[0].parameters(), models[1].parameters())))
