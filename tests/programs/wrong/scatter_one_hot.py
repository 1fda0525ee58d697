import torch; import torch.nn as nn
dev = torch.device('cuda:0' if torch.cuda.is_available() else 'cpu'); torch.manual_seed(0)

def one_hot(y, k): return torch.zeros(len(y), k).scatter_(1, y.view(-1, 1), 1.0)  # BUG: default-device culprit=torch.zeros(len(y), k)  # RAISES: 1
# FIX: def one_hot(y, k): return torch.zeros(len(y), k, device=y.device).scatter_(1, y.view(-1, 1), 1.0)

class CVAE(nn.Module):
    def __init__(s, d=8, k=3, z=2): super().__init__(); s.k = k; s.enc = nn.Linear(d + k, 2 * z); s.dec = nn.Linear(z + k, d)
    def forward(s, x, y):
        c = one_hot(y, s.k)
        mu, logvar = s.enc(torch.cat([x, c], 1)).chunk(2, 1)
        eps = torch.randn(mu.shape)  # BUG: default-device culprit=eps
        # FIX: eps = torch.randn_like(mu)
        h = mu + eps * (logvar / 2).exp()  # RAISES: 2
        return s.dec(torch.cat([h, c], 1)), mu, logvar

vae = CVAE().to(dev); opt = torch.optim.Adam(vae.parameters(), 1e-2)
X, Y = torch.rand(12, 8, device=dev), torch.arange(12, device=dev) % 3
for _ in range(3):
    r, mu, lv = vae(X, Y)
    loss = ((r - X) ** 2).sum(1).mean() - 0.5 * (1 + lv - mu ** 2 - lv.exp()).sum(1).mean()
    opt.zero_grad(); loss.backward(); opt.step()
print('elbo finite', loss.isfinite().item())
