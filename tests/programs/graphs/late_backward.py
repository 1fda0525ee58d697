"""Two calls of a graphed callable before one backward(): the first call's gradients are those of the second."""

import torch
from torch import nn

device = torch.device("cuda")
batches = [torch.full((3, 4), float(step)) for step in range(1, 5)]


def two_calls_before_backward():
    torch.manual_seed(0)
    critic = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1)).to(device)
    critic = torch.cuda.make_graphed_callables(critic, (torch.zeros(3, 4, device=device),))
    optimizer = torch.optim.SGD(critic.parameters(), lr=0.1)
    for real in batches:
        fake = -real.to(device)
        loss = critic(fake).mean()  # BUG: graph-output-kept
        # FIX: critic(fake).mean().backward()
        loss = loss - critic(real.to(device)).mean()
        # FIX: loss = -critic(real.to(device)).mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    return round(sum(p.sum().item() for p in critic.parameters()), 3)


print("two calls before backward", two_calls_before_backward())
