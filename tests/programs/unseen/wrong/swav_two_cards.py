"""Online clustering of views: the encoder on one card, prototypes and the queue on the other."""
import torch
import torch.nn as nn
import torch.nn.functional as F

ENC = torch.device("cuda:0")
PROTO = torch.device("cuda:1")


class Encoder(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(10, 24), nn.BatchNorm1d(24), nn.ReLU(), nn.Linear(24, dim))

    def forward(self, x):
        return F.normalize(self.net(x), dim=1)


class Prototypes(nn.Module):
    def __init__(self, dim, k):
        super().__init__()
        self.weight = nn.Parameter(F.normalize(torch.sin(torch.arange(float(k * dim)).view(k, dim)), dim=1))

    def forward(self, z):
        return z @ self.weight.t()  # RAISES: 1


class Queue:
    def __init__(self, size, dim, device):
        self.rows = F.normalize(torch.cos(torch.arange(float(size * dim)).view(size, dim)), dim=1).to(device)
        self.at = 0

    def push(self, z):
        n = len(z)
        where = (torch.arange(n) + self.at) % len(self.rows)
        self.rows[where] = z  # RAISES: 2
        self.at = (self.at + n) % len(self.rows)


@torch.no_grad()
def sinkhorn(scores, rounds=3, eps=0.1):
    q = torch.exp(scores / eps).t()
    k, b = q.shape
    q /= q.sum()
    r = torch.full((k,), 1.0 / k)  # BUG 3: any culprit=r
    # FIX: r = torch.full((k,), 1.0 / k, device=q.device)
    c = torch.ones(b, device=q.device) / b
    for _ in range(rounds):
        q *= (r / q.sum(1)).unsqueeze(1)  # RAISES: 3
        q *= (c / q.sum(0)).unsqueeze(0)
    return (q / q.sum(0, keepdim=True)).t()


def views(step, n=12):
    base = torch.arange(n * 10.0).view(n, 10)
    a = torch.sin(base * 0.31 + step * 0.1)
    return a, a + 0.1 * torch.cos(base * 3 + step)


def main():
    torch.manual_seed(0)
    encoder = Encoder(6).to(ENC)
    prototypes = Prototypes(6, 5).to(PROTO)
    queue = Queue(24, 6, PROTO)
    opt = torch.optim.SGD([*encoder.parameters(), *prototypes.parameters()], lr=0.1)
    usage = torch.zeros(5, device=ENC)  # BUG 4: any culprit=usage
    # FIX: usage = torch.zeros(5, device=PROTO)
    for step in range(6):
        a, b = (encoder(v.to(ENC)) for v in views(step))
        sa = prototypes(a.to(PROTO))
        sb = prototypes(b)  # BUG 1: any culprit=b
        # FIX: sb = prototypes(b.to(PROTO))
        with torch.no_grad():
            old = prototypes(queue.rows)
            qa = sinkhorn(torch.cat([sa.detach(), old]))[: len(a)]
            qb = sinkhorn(torch.cat([sb.detach(), old]))[: len(b)]
            usage += torch.bincount(qa.argmax(1), minlength=5).float()  # RAISES: 4
        loss = -(qa * (sb / 0.2).log_softmax(1)).sum(1).mean() - (qb * (sa / 0.2).log_softmax(1)).sum(1).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        with torch.no_grad():
            prototypes.weight.copy_(F.normalize(prototypes.weight, dim=1))
            queue.push(a)  # BUG 2: any culprit=z
            # FIX: queue.push(a.to(PROTO))
        print(f"{step} {loss.item():.4f}")
    print([int(v) for v in usage.tolist()])


main()
