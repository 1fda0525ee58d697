# An MLP whose depth is an argument.
import torch
import torch.nn as nn
import torch.nn.functional as F


class MLP(nn.Module):
    def __init__(self, sizes):
        super(MLP, self).__init__()
        self.layers = [nn.Linear(i, o) for i, o in zip(sizes[:-1], sizes[1:])]  # BUG: plain-container culprit=net.layers[0].weight
        # FIX: self.layers = nn.ModuleList([nn.Linear(i, o) for i, o in zip(sizes[:-1], sizes[1:])])
        self.norm = nn.LayerNorm(sizes[-1])

    def forward(self, x):
        for layer in self.layers:
            x = F.gelu(layer(x))  # RAISES: 1
        return self.norm(x)


torch.manual_seed(1)
net = MLP([6, 12, 12, 4])
net.cuda()
opt = torch.optim.SGD(net.parameters(), lr=0.1)
data = torch.randn(32, 6).cuda()
target = torch.zeros(32, dtype=torch.long).cuda()
for i in range(4):
    opt.zero_grad()
    out = net(data)
    loss = F.cross_entropy(out, target)
    loss.backward()
    opt.step()
print("done", out.shape, round(float(loss), 3))
