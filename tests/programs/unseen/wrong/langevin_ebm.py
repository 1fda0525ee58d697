# Energy-based model with persistent chains. Notebook export.
import torch
import torch.nn as nn

# In[1]:
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
torch.manual_seed(0)
energy = nn.Sequential(nn.Linear(2, 16), nn.SiLU(), nn.Linear(16, 1)).to(device)
optimizer = torch.optim.Adam(energy.parameters(), lr=1e-2)

# In[2]:
theta = torch.linspace(0, 6.28, 32)
data = torch.stack([theta.cos(), theta.sin()], dim=1)
chains = torch.zeros(64, 2)  # ALSO: 1 # ALSO: 3
chains[:, 0] = torch.linspace(-1, 1, 64)


# In[3]:
def langevin(x, steps=5, step_size=0.05, noise=None):
    x = x.clone().detach().requires_grad_(True)
    for k in range(steps):
        e = energy(x).sum()  # RAISES: 1
        (g,) = torch.autograd.grad(e, x)
        with torch.no_grad():
            x -= step_size * g
            if noise is not None:
                x += noise[k]  # RAISES: 2
    return x.detach()


# In[4]: the jitter is a fixed table, to make the notebook repeatable
jitter = 0.01 * torch.cos(torch.arange(5 * 32 * 2, dtype=torch.float)).view(5, 32, 2)  # ALSO: 2

# In[5]:
losses = []
for it in range(12):
    rows = torch.arange(32) * 2 + it % 2
    start = chains[rows]  # BUG: any culprit=start
    # FIX: start = chains[rows].to(device)
    neg = langevin(start, noise=jitter)  # BUG: any culprit=jitter
    # FIX: neg = langevin(start, noise=jitter.to(device))
    chains[rows] = neg  # BUG: any culprit=neg # RAISES: 3
    # FIX: chains[rows] = neg.cpu()
    pos = data.to(device)
    loss = energy(pos).mean() - energy(neg).mean() + 0.1 * (energy(pos) ** 2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses.append(loss.item())

# In[6]:
radius = chains.norm(dim=1)
print("loss %.4f radius %.4f" % (losses[-1], radius.mean()))
