"""Metropolis sampling on the card steered by numbers of the host; priors by torch.distributions."""
import math
import random
from itertools import islice

import torch
from torch.distributions import Categorical, Independent, MultivariateNormal, Normal, kl_divergence

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
rng = random.Random(12)


def banana(z):
    return -0.5 * (z[0] ** 2 / 4 + (z[1] + 0.25 * z[0] ** 2 - 1) ** 2)


def chain(log_density, start, scale):
    z, current = start, log_density(start)
    while True:
        noise = torch.tensor([rng.gauss(0, 1), rng.gauss(0, 1)])
        proposal = z + scale * noise.to(z.device)
        new = log_density(proposal)
        if math.log(rng.random() + 1e-12) < new - current:
            z, current = proposal, new
        yield z


def standardize(x):
    return (x - x.mean(0)) / x.std(0)


class Prior:
    """Lives where its location lives; the scale is a number."""

    def __init__(self, loc, scale=1.0):
        self.normal = Independent(Normal(loc, torch.tensor(scale).to(loc)), 1)

    def __call__(self, z):
        return self.normal.log_prob(z)

    def to(self, place):
        return Prior(self.normal.mean.to(place), self.normal.stddev[0].item())


start = torch.zeros(2, device=device)
scale = torch.tensor(0.8)
samples = torch.stack(list(islice(chain(banana, start, scale), 20, 80)))
print(tuple(samples.shape), f"{samples.mean().item():.3f}")

prior = Prior(torch.zeros(2, device=device))
print(f"{prior(samples).mean().item():.3f} {prior.to('cpu')(samples.cpu()).mean().item():.3f}")

weights = (-samples[:, 1]).exp().tolist()  # picked on the host
picked = rng.choices(range(len(samples)), weights, k=10)
chosen = samples[picked]
print(f"{chosen.mean().item():.3f}", chosen.device == samples.device)

fit = MultivariateNormal(samples.mean(0), samples.t().cov() + 1e-3 * torch.eye(2, device=device))
base = MultivariateNormal(torch.zeros(2, device=device), torch.eye(2, device=device))
print(f"kl {kl_divergence(fit, base).item():.3f}")

mixture = Categorical(torch.tensor([0.2, 0.3, 0.5]))  # on the host: the component steers
total = torch.zeros((), device=device)
for component, part in enumerate(samples.chunk(3)):
    total += mixture.log_prob(torch.tensor(component)) + part.mean()  # numbers of the host
print(f"{total.item():.3f}")

whitened = standardize(samples)
edges = torch.linspace(-2, 2, 5)
inside = torch.zeros(4)
for i, (a, b) in enumerate(zip(edges, edges[1:])):
    inside[i] = ((whitened[:, 0] >= a) & (whitened[:, 0] < b)).sum()  # a copy of one number
print(inside.tolist())
best = samples[samples.norm(dim=1).argmin()]
print(f"{best.norm():.4f}", torch.lerp(best, start, 0.5).device == device)
