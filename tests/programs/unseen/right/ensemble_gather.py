"""Members on two cards; results are written into one tensor on the first card or voted on the host."""
import torch
import torch.nn as nn
import torch.nn.functional as F

CARDS = [torch.device("cuda:0"), torch.device("cuda:1")]


def member():
    return nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 3))


class Ensemble:
    def __init__(self, n):
        self.members = [member().to(CARDS[i % 2]) for i in range(n)]
        self.opts = [torch.optim.Adam(m.parameters(), lr=2e-2) for m in self.members]

    def where(self, m):
        return next(m.parameters()).device

    def fit(self, x, y, gen):
        losses = torch.zeros(len(self.members))
        for i, (m, opt) in enumerate(zip(self.members, self.opts)):
            at = torch.randint(len(x), (len(x),), generator=gen)
            xb, yb = x[at].to(self.where(m)), y[at].to(self.where(m))
            loss = F.cross_entropy(m(xb), yb)
            opt.zero_grad()
            loss.backward()
            opt.step()
            losses[i] = loss.detach()
        return losses

    @torch.no_grad()
    def gather(self, x):
        out = torch.empty(len(self.members), len(x), 3, device=CARDS[0])
        for i, m in enumerate(self.members):
            out[i] = m(x.to(self.where(m))).softmax(-1)  # an assignment may cross cards
        return out

    @torch.no_grad()
    def vote(self, x):
        votes = [m(x.to(self.where(m))).argmax(1).cpu() for m in self.members]
        return torch.stack(votes).mode(0).values

    @torch.no_grad()
    def average_weights(self):
        """The mean of all the members, put into a new one on the first card."""
        soup = member().to(CARDS[0])
        for i, p in enumerate(soup.parameters()):
            p.copy_(torch.stack([list(m.parameters())[i].to(CARDS[0]) for m in self.members]).mean(0))
        return soup


def main():
    torch.manual_seed(15)
    gen = torch.Generator().manual_seed(15)
    x = torch.randn(150, 4, generator=gen)
    y = (x[:, :3] * torch.tensor([1.0, 0.8, 1.2])).argmax(1)
    bag = Ensemble(4)
    for epoch in range(12):
        losses = bag.fit(x, y, gen)
        if epoch % 4 == 3:
            print(f"epoch {epoch + 1} mean {losses.mean().item():.4f} worst {losses.max().item():.4f}")
    probs = bag.gather(x)
    doubt = -(probs.mean(0) * probs.mean(0).log()).sum(1)
    print(f"average {(probs.mean(0).argmax(1).cpu() == y).float().mean().item():.3f}")
    print(f"vote {(bag.vote(x) == y).float().mean().item():.3f} doubt {doubt.mean().item():.4f}")
    soup = bag.average_weights()
    with torch.no_grad():
        print(f"soup loss {F.cross_entropy(soup(x.to(CARDS[0])), y.to(CARDS[0])).item():.4f}")


main()
