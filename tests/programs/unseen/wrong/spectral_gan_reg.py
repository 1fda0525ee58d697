"""Spectral normalisation by hand (power iteration) and a gradient penalty."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class SNLinear(nn.Module):
    def __init__(self, i, o):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(o, i) * 0.2)
        self.bias = nn.Parameter(torch.zeros(o))
        self.u = F.normalize(torch.ones(o), dim=0)  # BUG: any culprit=self.u
        # FIX: self.register_buffer("u", F.normalize(torch.ones(o), dim=0))

    def normed(self):
        with torch.no_grad():
            v = F.normalize(self.weight.t() @ self.u, dim=0)  # RAISES: 1
            self.u = F.normalize(self.weight @ v, dim=0)
        sigma = self.u @ self.weight @ v
        return self.weight / sigma

    def forward(self, x):
        return F.linear(x, self.normed(), self.bias)


class Critic(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = SNLinear(3, 12), SNLinear(12, 1)

    def forward(self, x):
        return self.b(F.leaky_relu(self.a(x), 0.1))


def gradient_penalty(critic, real, fake):
    mix = torch.linspace(0, 1, real.size(0)).unsqueeze(1)  # BUG: any culprit=mix
    # FIX: mix = torch.linspace(0, 1, real.size(0), device=real.device).unsqueeze(1)
    mid = (mix * real + (1 - mix) * fake).requires_grad_(True)  # RAISES: 2
    out = critic(mid)
    ones = torch.ones(out.shape)  # BUG: any culprit=ones
    # FIX: ones = torch.ones(out.shape, device=out.device)
    g, = torch.autograd.grad(out, mid, grad_outputs=ones, create_graph=True)  # RAISES: 3
    return (g.norm(dim=1) - 1).pow(2).mean()


if __name__ == "__main__":
    torch.manual_seed(50)
    use_cuda = torch.cuda.is_available()
    critic = Critic()
    real = torch.sin(torch.arange(30.0)).view(10, 3)
    fake = torch.cos(torch.arange(30.0)).view(10, 3)
    if use_cuda:
        critic, real, fake = critic.cuda(), real.cuda(), fake.cuda()
    opt = torch.optim.RMSprop(critic.parameters(), lr=1e-3)
    for _ in range(10):
        loss = critic(fake).mean() - critic(real).mean() + 10 * gradient_penalty(critic, real, fake)
        opt.zero_grad()
        loss.backward()
        opt.step()
    print("critic loss: {:.4f}".format(loss.item()))
