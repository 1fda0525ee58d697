import torch
from torch import nn

D0, D1 = torch.device("cuda:0"), torch.device("cuda:1")


class Split(nn.Module):
    def __init__(self):
        super().__init__()
        self.enc = nn.Linear(4, 8).to(D0)
        self.mid = nn.Linear(8, 8).to(D1)
        self.dec = nn.Linear(8, 4).to(D0)

    def forward(self, x):
        a = torch.relu(self.enc(x.to(D0)))
        b = torch.relu(self.mid(a.to(D1)))
        return self.dec(a + b.to(a.device))


def loss_on_both(out, target):
    near = (out - target.to(out.device)).square().mean()
    far = out.to(D1).abs().mean()
    return near + 0.1 * far.to(near.device)


torch.manual_seed(1)
net = Split()
opt = torch.optim.SGD(net.parameters(), lr=0.1)
x = torch.sin(torch.arange(32.0)).view(8, 4)
for _ in range(6):
    opt.zero_grad()
    loss = loss_on_both(net(x), x)
    loss.backward()
    nn.utils.clip_grad_norm_(net.parameters(), 1.0)
    opt.step()
grads = [(p.device.index, tuple(p.grad.shape)) for p in net.parameters() if p.dim() == 2]
print("%.4f" % loss.item(), grads)
