import torch
from torch import nn
from torch.optim.swa_utils import AveragedModel, update_bn
from torch.utils.data import DataLoader, TensorDataset


class SAM:
    def __init__(self, params, base, rho=0.05, **kw):
        self.params = list(params)
        self.base = base(self.params, **kw)
        self.rho = rho

    @torch.no_grad()
    def climb(self):
        norm = torch.stack([p.grad.norm() for p in self.params]).norm()
        self.eps = [self.rho * p.grad / (norm + 1e-12) for p in self.params]
        for p, e in zip(self.params, self.eps):
            p.add_(e)

    @torch.no_grad()
    def descend(self):
        for p, e in zip(self.params, self.eps):
            p.sub_(e)
        self.base.step()


torch.manual_seed(55)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
x = torch.sin(torch.arange(96.0)).view(24, 4)
y = (x.sum(1) > 0).long()
loader = DataLoader(TensorDataset(x, y), batch_size=8)
net = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 2)).to(device)
swa = AveragedModel(net)
opt = SAM(net.parameters(), torch.optim.SGD, lr=0.1)
for epoch in range(3):
    for bx, by in loader:
        bx, by = bx.to(device), by.to(device)
        for phase in (opt.climb, opt.descend):
            net.zero_grad()
            loss = nn.functional.cross_entropy(net(bx), by)
            loss.backward()
            phase()
    swa.update_parameters(net)
update_bn(loader, swa, device=device)
swa.eval()
with torch.no_grad():
    acc = sum((swa(bx.to(device)).argmax(1).cpu() == by).sum().item() for bx, by in loader) / len(x)
print("%.4f %.3f %d" % (loss.item(), acc, int(swa.n_averaged)))
