"""Differentiable spring lattice: fit stiffness so the simulated sag meets a target."""
import torch


def lattice(rows, cols):
    pts = [(float(c), -float(r)) for r in range(rows) for c in range(cols)]
    links = []
    for r in range(rows):
        for c in range(cols):
            here = r * cols + c
            if c + 1 < cols:
                links.append((here, here + 1))
            if r + 1 < rows:
                links.append((here, here + cols))
            if c + 1 < cols and r + 1 < rows:
                links.append((here, here + cols + 1))
    return torch.tensor(pts), torch.tensor(links)


def make_force(x0, links, device):
    a = links[:, 0].to(device)
    b = links[:, 1]  # BUG: any culprit=b
    # FIX: b = links[:, 1].to(device)
    rest = (x0[a] - x0[b]).norm(dim=1)

    def force(x, stiffness):
        d = x[b] - x[a]
        length = d.norm(dim=1)
        pull = (stiffness * (length - rest) / length)[:, None] * d
        return torch.zeros_like(x).index_add_(0, a, pull).index_add_(0, b, -pull)  # RAISES: 1

    return force


def gravity_like(x, g=(0.0, -0.8)):
    return torch.tensor(g)  # BUG: any
    # FIX: return torch.tensor(g, device=x.device)


def simulate(x0, force, stiffness, pinned, steps=40, dt=0.05, damping=1.5):
    x, v = x0, torch.zeros_like(x0)
    free = (~pinned).float()[:, None]
    for _ in range(steps):
        acc = force(x, stiffness) + gravity_like(x) - damping * v  # RAISES: 2
        v = (v + dt * acc) * free  # RAISES: 3
        x = x + dt * v
    return x


def pin_corners(n, cols, device):
    pinned = torch.zeros(n, dtype=torch.bool)  # BUG: any culprit=pinned
    # FIX: pinned = torch.zeros(n, dtype=torch.bool, device=device)
    pinned[0] = pinned[cols - 1] = True
    return pinned


def main():
    torch.manual_seed(0)
    device = torch.device("cuda")
    rows, cols = 3, 4
    x0, links = lattice(rows, cols)
    x0 = x0.to(device)
    force = make_force(x0, links, device)
    pinned = pin_corners(len(x0), cols, device)

    true_k = torch.linspace(6.0, 12.0, len(links), device=device)
    with torch.no_grad():
        target = simulate(x0, force, true_k, pinned)

    raw = torch.full((len(links),), 2.0, device=device, requires_grad=True)
    opt = torch.optim.Adam([raw], lr=0.08)
    for it in range(15):
        final = simulate(x0, force, torch.nn.functional.softplus(raw) * 2, pinned)
        loss = (final - target).pow(2).sum(1).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        if it % 5 == 4:
            print(f"{it + 1} loss {loss.item():.6f} k-mean {(torch.nn.functional.softplus(raw) * 2).mean().item():.4f}")
    lowest = x0[:, 1].argmin()
    print("sag", round((x0[lowest, 1] - final[lowest, 1]).item(), 4))


main()
