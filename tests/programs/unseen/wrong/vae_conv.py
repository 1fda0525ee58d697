# VAE on tiny "images"; use_cuda style from the old pytorch examples
import argparse
import torch
import torch.utils.data
from torch import nn, optim
from torch.nn import functional as F

parser = argparse.ArgumentParser(description="VAE")
parser.add_argument("--batch-size", type=int, default=8)
parser.add_argument("--epochs", type=int, default=2)
parser.add_argument("--no-cuda", action="store_true", default=False)
parser.add_argument("--seed", type=int, default=1)
args = parser.parse_args()
args.cuda = not args.no_cuda and torch.cuda.is_available()
torch.manual_seed(args.seed)


class VAE(nn.Module):
    def __init__(self, latent=3):
        super().__init__()
        self.enc = nn.Sequential(nn.Conv2d(1, 4, 3, stride=2, padding=1), nn.ReLU(), nn.Flatten())
        self.mu = nn.Linear(64, latent)
        self.logvar = nn.Linear(64, latent)
        self.dec = nn.Sequential(nn.Linear(latent, 64), nn.ReLU(), nn.Linear(64, 64), nn.Sigmoid())

    def reparametrize(self, mu, logvar):
        std = logvar.mul(0.5).exp()
        # low-discrepancy noise, so that runs are comparable
        eps = torch.sin(torch.arange(std.numel(), dtype=torch.float32)).view(std.shape)  # ALSO: 1
        if self.training:
            return mu + std * eps  # BUG: any culprit=eps # RAISES: 1
            # FIX: return mu + std * eps.to(std.device)
        return mu

    def forward(self, x):
        h = self.enc(x)  # RAISES: 2
        mu, logvar = self.mu(h), self.logvar(h)
        z = self.reparametrize(mu, logvar)
        return self.dec(z).view(-1, 1, 8, 8), mu, logvar


model = VAE()
if args.cuda:
    model.cuda()
optimizer = optim.Adam(model.parameters(), lr=1e-2)

images = (torch.sin(torch.arange(32 * 64.0) * 0.11).view(32, 1, 8, 8) + 1) / 2
loader = torch.utils.data.DataLoader(images, batch_size=args.batch_size)


def loss_function(recon, x, mu, logvar):
    bce = F.binary_cross_entropy(recon, x, reduction="sum")
    kld = -0.5 * torch.sum(1 + logvar - mu.pow(2) - logvar.exp())
    return bce + kld


def train(epoch):
    model.train()
    total = 0
    for data in loader:
        if args.cuda:
            data.cuda()  # BUG: any culprit=data
            # FIX: data = data.cuda()
        optimizer.zero_grad()
        recon, mu, logvar = model(data)
        loss = loss_function(recon, data, mu, logvar)
        loss.backward()
        total += loss.item()
        optimizer.step()
    return total / len(loader.dataset)


for epoch in range(1, args.epochs + 1):
    print("epoch %d loss %.3f" % (epoch, train(epoch)))

model.eval()
with torch.no_grad():
    codes = torch.stack([torch.zeros(3), torch.ones(3), -torch.ones(3)])  # BUG: any culprit=codes
    # FIX: codes = torch.stack([torch.zeros(3), torch.ones(3), -torch.ones(3)])
    # FIX: if args.cuda:
    # FIX:     codes = codes.cuda()
    sample = model.dec(codes)  # RAISES: 3
print("sample mean %.4f" % sample.mean().item())
