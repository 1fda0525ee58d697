"""Deep copies keep their device: target networks and lookahead weights."""
import copy
import torch
from torch import nn


class Lookahead:
    def __init__(self, opt, k=3, alpha=0.5):
        self.opt, self.k, self.alpha, self.n = opt, k, alpha, 0
        self.slow = [[p.detach().clone() for p in g["params"]] for g in opt.param_groups]

    def zero_grad(self):
        self.opt.zero_grad()

    @torch.no_grad()
    def step(self):
        self.opt.step()
        self.n += 1
        if self.n % self.k == 0:
            for g, slow in zip(self.opt.param_groups, self.slow):
                for p, s in zip(g["params"], slow):
                    s.add_(p - s, alpha=self.alpha)
                    p.copy_(s)


torch.manual_seed(8)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
online = nn.Linear(3, 2).to(device)
target = copy.deepcopy(online)
frozen = copy.deepcopy(online).to("cpu")
opt = Lookahead(torch.optim.SGD(online.parameters(), lr=0.1))
x = torch.ones(5, 3, device=device) * torch.arange(5, device=device).unsqueeze(1)
for _ in range(7):
    loss = (online(x) - target(x).detach() - 1).square().mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
gap = (online.weight.cpu() - frozen.weight).norm()
opt_copy = copy.deepcopy(opt.opt.state_dict())
print("%.4f %.4f" % (loss.item(), gap.item()), len(opt_copy["param_groups"]), target.weight.device.type)
