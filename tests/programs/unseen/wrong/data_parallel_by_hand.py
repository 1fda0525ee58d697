"""Poor man's data parallel: two replicas, gradients averaged on the first one."""
import copy

import torch
from torch import nn

devices = ["cuda:0", "cuda:1"]
MAIN = devices[0]


def model_fn():
    return nn.Sequential(nn.Linear(6, 12), nn.ReLU(), nn.Linear(12, 2))


def replicate(model):
    return [copy.deepcopy(model).to(d) for d in devices]


def shard(t):
    return [c.to(d) for c, d in zip(t.chunk(len(devices)), devices)]


def broadcast(src, dst):
    with torch.no_grad():
        for a, b in zip(src.parameters(), dst.parameters()):
            b.copy_(a)


def reduce_grads(replicas):
    main, others = replicas[0], replicas[1:]
    for ps in zip(main.parameters(), *(o.parameters() for o in others)):
        g = ps[0].grad
        for p in ps[1:]:
            g += p.grad  # BUG: any culprit=p.grad # RAISES: 1
            # FIX: g += p.grad.to(MAIN)
        g /= len(replicas)


def gather_predictions(replicas, x):
    outs = []
    with torch.no_grad():
        for r, part in zip(replicas, shard(x)):
            outs.append(r(part))  # BUG: any culprit=outs
            # FIX: outs.append(r(part).to(MAIN))
    return torch.cat(outs)  # RAISES: 2 # ALSO: 2


def main():
    torch.manual_seed(3)
    base = model_fn()
    replicas = replicate(base)
    opt = torch.optim.SGD(replicas[0].parameters(), lr=0.1)
    x = torch.sin(torch.arange(16 * 6.0)).view(16, 6)
    y = (x[:, 0] > x[:, 1]).long()
    log = []
    for step in range(6):
        for r in replicas:
            r.zero_grad(set_to_none=True)
        losses = []
        for r, xs, ys in zip(replicas, shard(x), shard(y)):
            loss = nn.functional.cross_entropy(r(xs), ys)
            loss.backward()
            losses.append(loss.detach())  # ALSO: 3
        reduce_grads(replicas)
        opt.step()
        broadcast(replicas[0], replicas[1])
        log.append(torch.stack(losses).mean().item())  # BUG: any culprit=losses # RAISES: 3
        # FIX: log.append(torch.stack([v.to(MAIN) for v in losses]).mean().item())
    pred = gather_predictions(replicas, x).argmax(1).cpu()
    print(["%.4f" % v for v in log[-2:]], (pred == y).sum().item())


main()
