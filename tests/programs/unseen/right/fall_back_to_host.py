"""Some steps are tried on the device first and done on the host if that is refused."""
import torch
import torch.nn as nn

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")


class HostTable:
    """A large lookup table which stays on the host whatever asks for it."""

    def __init__(self, rows, dim, gen):
        self.rows = torch.randn(rows, dim, generator=gen)
        self.fallbacks = 0

    def __getitem__(self, key):
        try:
            return self.rows[key]
        except (RuntimeError, IndexError):
            self.fallbacks += 1
            return self.rows[key.cpu()].to(key.device)


def whiten(x):
    """Eigenvectors of the covariance; on the host if there is no solver for the device."""
    c = x - x.mean(0)
    cov = c.t() @ c / len(x) + 1e-3 * torch.eye(x.shape[1], device=x.device)
    try:
        w, v = torch.linalg.eigh(cov)
    except RuntimeError:
        w, v = (t.to(x.device) for t in torch.linalg.eigh(cov.cpu()))
    return c @ (v / w.sqrt())


def as_array(t):
    try:
        return t.numpy()
    except TypeError:
        return t.cpu().numpy()


def safe_sum(parts):
    try:
        return torch.stack(parts).sum()
    except RuntimeError:
        return sum(p.item() for p in parts)


def main():
    gen = torch.Generator().manual_seed(5)
    torch.manual_seed(5)
    table = HostTable(50, 6, gen)
    keys = torch.randint(50, (120,), generator=gen).to(device)
    target = table[keys][:, :1] * 2 + 0.5
    feats = whiten(table[keys]).detach()
    net = nn.Linear(6, 1).to(device)
    opt = torch.optim.LBFGS(net.parameters(), lr=0.5, max_iter=4)

    def closure():
        opt.zero_grad()
        loss = (net(feats) - target).square().mean()
        loss.backward()
        return loss

    for step in range(4):
        loss = opt.step(closure)
        print(f"step {step} {loss.item():.5f}")
    with torch.no_grad():
        resid = as_array((net(feats) - target).squeeze(1))
    print("residual std %.5f" % resid.std())
    parts = [loss.detach(), torch.tensor(0.25)]
    print("sum %.4f" % float(safe_sum(parts)))


main()
