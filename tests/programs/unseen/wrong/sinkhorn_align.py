# Entropic optimal transport between two embedding clouds; functional style, closures
import torch


def squared_cost(a, b):
    return ((a[:, None] - b[None]) ** 2).sum(-1)


def make_sinkhorn(eps, iters):
    def solve(cost, p, q):
        f, g = torch.zeros_like(p), torch.zeros_like(q)
        for _ in range(iters):
            f = eps * (p.log() - torch.logsumexp((g[None] - cost) / eps, dim=1))  # RAISES: 1 # RAISES: 2
            g = eps * (q.log() - torch.logsumexp((f[:, None] - cost) / eps, dim=0))
        return torch.exp((f[:, None] + g[None] - cost) / eps)

    return solve


def uniform(n, device=None):
    return torch.full((n,), 1.0 / n, device=device)


def procrustes(x, y, plan):
    u, _, vt = torch.linalg.svd(x.T @ plan @ y)
    return u @ vt


def align(x, y, rounds=3, solve=make_sinkhorn(0.1, 30)):
    rot = torch.eye(x.shape[1], device=x.device)
    p = uniform(len(x), x.device)
    q = uniform(len(y))  # BUG 1: any culprit=q
    # FIX: q = uniform(len(y), y.device)
    for _ in range(rounds):
        plan = solve(squared_cost(x @ rot, y), p, q)
        rot = procrustes(x, y, plan)
    return rot, plan


def partial_align(x, y, keep, solve=make_sinkhorn(0.2, 20)):
    w = keep.float() + 1e-6
    w = w / w.sum()
    return solve(squared_cost(x, y), w, uniform(len(y), y.device))


def main():
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    x = torch.sin(torch.arange(24.0)).view(12, 2).to(device)
    theta = torch.tensor(0.7)
    spin = torch.tensor([[theta.cos(), -theta.sin()], [theta.sin(), theta.cos()]])  # ALSO: 3
    y = x @ spin  # BUG 3: any culprit=spin # RAISES: 3
    # FIX: y = x @ spin.to(device)
    rot, plan = align(x, y)
    print("plan mass %.3f" % plan.sum().item(), "det %.3f" % torch.linalg.det(rot).item())
    keep = torch.arange(12) % 3 != 0  # BUG 2: any culprit=keep
    # FIX: keep = torch.arange(12, device=device) % 3 != 0
    part = partial_align(x, y, keep)
    print("kept %.4f" % part[0].sum().item())


main()
