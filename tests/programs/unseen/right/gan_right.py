"""GAN with labels made like the scores."""
import torch
from torch import nn

cuda = torch.cuda.is_available()
Tensor = torch.cuda.FloatTensor if cuda else torch.FloatTensor
torch.manual_seed(99)
G = nn.Sequential(nn.Linear(2, 8), nn.ReLU(), nn.Linear(8, 3))
D = nn.Sequential(nn.Linear(3, 8), nn.LeakyReLU(0.2), nn.Linear(8, 1), nn.Sigmoid())
loss_fn = nn.BCELoss()
if cuda:
    G.cuda()
    D.cuda()
    loss_fn.cuda()
og = torch.optim.Adam(G.parameters(), lr=1e-2)
od = torch.optim.Adam(D.parameters(), lr=1e-2)
for i in range(8):
    real = torch.sin(torch.arange(18.0) + i).view(6, 3).type(Tensor)
    valid = Tensor(6, 1).fill_(1.0)
    fake = Tensor(6, 1).fill_(0.0)
    z = torch.cos(torch.arange(12.0) * (i + 1)).view(6, 2).type(Tensor)
    gen = G(z)
    g_loss = loss_fn(D(gen), valid)
    og.zero_grad()
    g_loss.backward()
    og.step()
    d_loss = (loss_fn(D(real), torch.ones_like(valid)) + loss_fn(D(gen.detach()), fake)) / 2
    od.zero_grad()
    d_loss.backward()
    od.step()
print("%.4f %.4f" % (g_loss.item(), d_loss.item()))
