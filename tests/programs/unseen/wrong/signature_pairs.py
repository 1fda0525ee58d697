"""Siamese verification of signatures, in a small framework of my own."""
import torch
from torch import nn
from torch.nn import functional as F


class Component:
    """Everything that a run is made of knows its run."""

    def bind(self, run):
        self.run = run
        return self

    @property
    def device(self):
        return self.run.device


class PairSource(Component):
    def __init__(self, people, per_person):
        t = torch.linspace(0, 6.28, 20)
        rows = [torch.sin(t * (1 + p * 0.3) + 0.1 * s) for p in range(people) for s in range(per_person)]
        self.images = torch.stack(rows)
        self.owner = torch.arange(people).repeat_interleave(per_person)

    def pairs(self, step, size=12):
        n = len(self.images)
        left = (torch.arange(size) * 5 + step) % n
        right = (torch.arange(size) * 3 + 2 * step) % n
        same = (self.owner[left] == self.owner[right]).float()
        return self.images[left].to(self.device), self.images[right].to(self.device), same  # BUG: any culprit=same
        # FIX: return self.images[left].to(self.device), self.images[right].to(self.device), same.to(self.device)


class ContrastiveLoss(nn.Module):
    def __init__(self, margin=1.0):
        super().__init__()
        self.margin = margin

    def forward(self, a, b, same):
        d = F.pairwise_distance(a, b)
        return (same * d.square() + (1 - same) * (self.margin - d).clamp(min=0).square()).mean()  # RAISES: 1


class Gallery(Component):
    """One embedding a person, updated by exponential smoothing."""

    def __init__(self, people, width, rate=0.5):
        self.rows = torch.zeros(people, width)
        self.rate = rate

    def enroll(self, encoder, source):
        with torch.no_grad():
            z = encoder(source.images.to(self.device))
            for p in range(len(self.rows)):
                mean = z[(source.owner == p).to(z.device)].mean(0)
                self.rows[p].lerp_(mean, self.rate)  # BUG: any culprit=self.rows[p] # RAISES: 2
                # FIX: self.rows[p].lerp_(mean.cpu(), self.rate)

    def identify(self, z):
        return torch.cdist(z.cpu(), self.rows).argmin(1)


class Run:
    def __init__(self, device, people=4):
        self.device = torch.device(device)
        self.source = PairSource(people, 3).bind(self)
        self.gallery = Gallery(people, 8).bind(self)
        self.encoder = nn.Sequential(nn.Linear(20, 16), nn.Tanh(), nn.Linear(16, 8)).to(self.device)
        self.loss = ContrastiveLoss().to(self.device)
        self.optimizer = torch.optim.SGD(self.encoder.parameters(), lr=0.1, momentum=0.9)

    def train(self, steps):
        for step in range(steps):
            a, b, same = self.source.pairs(step)
            loss = self.loss(self.encoder(a), self.encoder(b), same)
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
        return loss.item()

    def accuracy(self):
        with torch.no_grad():
            z = self.encoder(self.source.images)  # BUG: any culprit=self.source.images # RAISES: 3
            # FIX: z = self.encoder(self.source.images.to(self.device))
        return (self.gallery.identify(z) == self.source.owner).float().mean().item()


torch.manual_seed(2)
run = Run("cuda" if torch.cuda.is_available() else "cpu")
print("loss %.4f" % run.train(8))
run.gallery.enroll(run.encoder, run.source)
print("accuracy %.3f" % run.accuracy())
