"""Modules are built within a device context; what belongs to the host says so."""
import torch
import torch.nn as nn
import torch.nn.functional as F

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")


class Memory:
    """Key-value memory, made where the context says; the tags stay on the host."""

    def __init__(self, slots, dim):
        self.keys = F.normalize(torch.randn(slots, dim), dim=1)
        self.age = torch.zeros(slots)
        self.tags = torch.full((slots,), -1, device="cpu")

    def write(self, z, tags):
        old = self.age.topk(len(z)).indices
        self.keys[old] = z
        self.age += 1
        self.age[old] = 0.0
        self.tags[old.cpu()] = tags

    def read(self, z, k=5):
        near = (z @ self.keys.t()).topk(k).indices
        return self.tags[near.cpu()].mode(1).values


def views(n, gen, noise=0.2):
    tags = torch.randint(4, (n,), generator=gen)
    base = torch.eye(4)[tags].repeat(1, 2)
    a, b = (base + noise * torch.randn(n, 8, generator=gen) for _ in range(2))
    return a, b, tags


def nt_xent(za, zb, t=0.3):
    z = torch.cat([za, zb])
    sim = z @ z.t() / t
    with torch.device(z.device):
        sim = sim.masked_fill(torch.eye(len(z), dtype=torch.bool), -1e9)
        want = torch.arange(len(z)).roll(len(za))
    return F.cross_entropy(sim, want)


def main():
    torch.manual_seed(36)
    gen = torch.Generator().manual_seed(36)
    with device:
        net = nn.Sequential(nn.Linear(8, 24), nn.ReLU(), nn.Linear(24, 6))
        memory = Memory(64, 6)
    opt = torch.optim.Adam(net.parameters(), lr=1e-2)
    embed = lambda x: F.normalize(net(x.to(device)), dim=1)
    for step in range(12):
        a, b, tags = views(24, gen)
        za, zb = embed(a), embed(b)
        loss = nt_xent(za, zb)
        opt.zero_grad()
        loss.backward()
        opt.step()
        memory.write(za.detach(), tags)
        if step % 4 == 3:
            print(f"{step + 1} loss {loss.item():.4f}")
    a, _, tags = views(40, gen)
    with torch.no_grad():
        found = memory.read(embed(a))
    print(f"recalled {(found == tags).float().mean().item():.3f} age {memory.age.mean().item():.3f}")


main()
