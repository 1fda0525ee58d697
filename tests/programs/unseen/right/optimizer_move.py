"""Moving a model and the state of its optimizer to another device in the middle of training."""
import torch
from torch import nn


def optimizer_to(opt, device):
    for state in opt.state.values():
        for k, v in state.items():
            if torch.is_tensor(v) and k != "step":
                state[k] = v.to(device)


def step(net, opt, x, y):
    opt.zero_grad()
    loss = nn.functional.mse_loss(net(x), y)
    loss.backward()
    opt.step()
    return loss.item()


torch.manual_seed(16)
net = nn.Sequential(nn.Linear(3, 6), nn.Tanh(), nn.Linear(6, 1))
opt = torch.optim.Adam(net.parameters(), lr=0.02)     # before the move: the parameters keep their identity
x = torch.cos(torch.arange(24.0)).view(8, 3)
y = x.prod(1, keepdim=True)
trace = [step(net, opt, x, y)]
for device in ("cuda:0", "cuda:1", "cpu", "cuda:0"):
    net.to(device)
    optimizer_to(opt, device)
    trace.append(step(net, opt, x.to(device), y.to(device)))
fresh = nn.Linear(3, 1)
sgd = torch.optim.SGD(fresh.parameters(), lr=0.1, momentum=0.9)
fresh.cuda()                                           # no state yet, so nothing to move
trace.append(step(fresh, sgd, x.cuda(), y.cuda()))
print(["%.4f" % t for t in trace], sorted({str(s["exp_avg"].device) for s in opt.state.values()}))
