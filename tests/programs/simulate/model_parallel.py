# compare: exact
# devices: 2
"""A model split over two devices: the hand-off in forward, autograd's hand-back in backward."""

import torch
import torch.nn as nn

torch.manual_seed(0)
if torch.cuda.device_count() >= 2:
    first, second = torch.device("cuda:0"), torch.device("cuda:1")
else:
    first = second = torch.device("cpu")


class Halves(nn.Module):
    def __init__(self):
        super().__init__()
        self.bottom = nn.Sequential(nn.Linear(16, 32), nn.ReLU()).to(first)
        self.top = nn.Sequential(nn.Linear(32, 32), nn.Tanh(), nn.Linear(32, 4)).to(second)

    def forward(self, x):
        return self.top(self.bottom(x.to(first)).to(second))


class Pipelined(Halves):
    """Micro-batches: while the second half works on one, the first takes the next."""

    def forward(self, x, split=8):
        pieces = iter(x.split(split))
        waiting = self.bottom(next(pieces).to(first)).to(second)
        done = []
        for piece in pieces:
            done.append(self.top(waiting))
            waiting = self.bottom(piece.to(first)).to(second)
        done.append(self.top(waiting))
        return torch.cat(done)


x = torch.randn(32, 16)
y = torch.randn(32, 4)
for kind in (Halves, Pipelined):
    torch.manual_seed(1)
    model = kind()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    for step in range(6):
        optimizer.zero_grad()
        output = model(x)
        assert output.device == second
        loss = nn.functional.mse_loss(output, y.to(output.device))
        loss.backward()
        optimizer.step()
        print(f"{kind.__name__} step {step} loss {loss.item():.6f}")
    for part, device in ((model.bottom, first), (model.top, second)):
        assert all(p.device == device and p.grad.device == device for p in part.parameters())

# A gradient that crosses over and back again.
a = torch.full((3,), 2.0, device=first, requires_grad=True)
b = (a * 3).to(second) * 2
c = b.to(first) + a
c.sum().backward()
assert a.grad.device == first
print("grad", a.grad.tolist())
