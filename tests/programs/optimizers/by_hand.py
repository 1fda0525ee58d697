"""A new head that the program trains itself, beside an optimizer that was made before it: not in the optimizer, and
trained."""

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(6, 6), nn.Tanh(), nn.Linear(6, 2)).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
model[2] = nn.Linear(6, 3).cuda()
before = model[2].weight.detach().clone()

for step in range(4):
    loss = model(torch.full((8, 6), 0.1 * step, device="cuda")).square().mean()
    loss.backward()
    optimizer.step()
    for parameter in model[2].parameters():
        parameter.data -= 0.05 * parameter.grad
    model.zero_grad(set_to_none=True)

print("moved", not torch.equal(before, model[2].weight))
