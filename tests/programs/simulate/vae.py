# compare: close
# devices: 1
"""A variational autoencoder; the noise is drawn on the CPU so that the run can be compared."""

import argparse

import torch
from torch import nn, optim
from torch.nn import functional as F


class VAE(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1 = nn.Linear(64, 48)
        self.fc21 = nn.Linear(48, 6)
        self.fc22 = nn.Linear(48, 6)
        self.fc3 = nn.Linear(6, 48)
        self.fc4 = nn.Linear(48, 64)

    def encode(self, x):
        h = F.relu(self.fc1(x))
        return self.fc21(h), self.fc22(h)

    def decode(self, z):
        return torch.sigmoid(self.fc4(F.relu(self.fc3(z))))

    def forward(self, x, noise):
        mu, logvar = self.encode(x)
        z = mu + noise * torch.exp(0.5 * logvar)
        return self.decode(z), mu, logvar


def loss_function(recon, x, mu, logvar):
    bce = F.binary_cross_entropy(recon, x, reduction="sum")
    kld = -0.5 * torch.sum(1 + logvar - mu.pow(2) - logvar.exp())
    return bce + kld


parser = argparse.ArgumentParser(description="VAE")
parser.add_argument("--epochs", type=int, default=10)
args = parser.parse_args()
torch.manual_seed(1)
device = torch.device("cuda") if torch.cuda.is_available() else torch.device("cpu")
images = (torch.rand(128, 64) > 0.6).float()
images[:, :32] = images[:, 32:]
model = VAE().to(device)
optimizer = optim.Adam(model.parameters(), lr=3e-3)

for epoch in range(args.epochs):
    model.train()
    total = 0.0
    for data in images.split(32):
        data = data.to(device)
        optimizer.zero_grad()
        recon, mu, logvar = model(data, torch.randn(len(data), 6).to(device))
        loss = loss_function(recon, data, mu, logvar)
        loss.backward()
        total += loss.item()
        optimizer.step()
    print(f"epoch {epoch} loss {total / len(images):.4f}")

with torch.no_grad():
    sample = model.decode(torch.zeros(4, 6).to(device)).cpu()
assert sample.device.type == "cpu" and next(model.parameters()).device.type == device.type
print(f"sample {sample.mean().item():.4f}")
print("parameters", sum(p.numel() for p in model.parameters()))
