"""Distributions with parameters on the device, schedulers in Python numbers, diffusion tables moved before use."""
import torch
from torch import nn
from torch.distributions import Categorical, Normal, kl_divergence

torch.manual_seed(0)
device = torch.device("cuda:0")
alphas = torch.cumprod(1 - torch.linspace(1e-4, 0.02, 50), 0)
alphas_device = alphas.to(device)
model = nn.Linear(4, 8).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=4)
x = torch.randn(6, 4, device=device)
for step in range(3):
    t = torch.randint(0, 50, (6,), device=device)
    noisy = alphas_device[t].sqrt()[:, None] * x + (1 - alphas[t.cpu()]).sqrt().to(device)[:, None]
    mean, scale = model(noisy).chunk(2, -1)
    posterior = Normal(mean, nn.functional.softplus(scale) + 1e-3)
    prior = Normal(torch.zeros_like(mean), torch.ones_like(mean))
    loss = kl_divergence(posterior, prior).mean() - posterior.log_prob(x).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    scheduler.step()
policy = Categorical(logits=model(x))
print(policy.sample().device, policy.entropy().shape, round(scheduler.get_last_lr()[0], 4), posterior.rsample().device)
