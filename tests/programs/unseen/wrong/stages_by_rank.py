"""A GPipe in one process: every stage lives on the card of its rank, micro-batches travel through them."""
import torch
import torch.nn as nn


class Stage(nn.Module):
    def __init__(self, rank, world, dim):
        super().__init__()
        self.rank, self.world = rank, world
        self.device = torch.device("cuda", rank)
        self.norm = nn.LayerNorm(dim)
        self.block = nn.Sequential(nn.Linear(dim, 2 * dim), nn.GELU(), nn.Linear(2 * dim, dim))
        self.scale = torch.full((dim,), 0.5, device="cuda")  # BUG: any culprit=self.scale
        # FIX: self.scale = torch.full((dim,), 0.5, device=self.device)
        self.to(self.device)

    def forward(self, x):
        return x + self.scale * self.block(self.norm(x))  # RAISES: 1 # RAISES: 3


class Pipeline:
    def __init__(self, stages, head, chunks):
        self.stages, self.head, self.chunks = stages, head, chunks
        self.seen = [torch.zeros((), device=s.device) for s in stages]


    def parameters(self):
        for stage in self.stages:
            yield from stage.parameters()
        yield from self.head.parameters()

    def __call__(self, x):
        outs = []
        for micro in x.chunk(self.chunks):
            for i, stage in enumerate(self.stages):
                micro = stage(micro.to(stage.device))
                self.seen[i] += micro.detach().abs().mean()
            outs.append(self.head(micro))  # RAISES: 2
        return torch.cat(outs)

    def replay(self, x, rank):
        """From one stage on, without the others before it."""
        for stage in self.stages[rank:]:
            x = stage(x)
            x = x.to(self.stages[min(stage.rank + 1, stage.world - 1)].device)
        return x


def clip(params, limit):
    """Over several cards: norms are gathered on the first."""
    params = [p for p in params if p.grad is not None]
    norms = [p.grad.norm() for p in params]  # ALSO: 4
    total = torch.stack(norms).norm()  # BUG 4: any culprit=norms # RAISES: 4
    # FIX: total = torch.stack([n.to(norms[0].device) for n in norms]).norm()
    for p in params:
        p.grad.mul_(min(1.0, limit / (total.item() + 1e-6)))
    return total.item()


def main(world=2, dim=6):
    torch.manual_seed(50)
    stages = [Stage(rank, world, dim) for rank in range(world)]
    first, last = stages[0].device, stages[-1].device
    head = nn.Linear(dim, 2).to(first)  # BUG 2: any culprit=weight
    # FIX: head = nn.Linear(dim, 2).to(last)
    pipe = Pipeline(stages, head, chunks=3)
    opt = torch.optim.SGD(pipe.parameters(), lr=0.1)
    x = torch.sin(torch.arange(72.0) * 0.9).view(12, dim)
    y = (x.sum(1) > 0).long()
    for step in range(5):
        out = pipe(x.to(first))
        loss = nn.functional.cross_entropy(out, y.to(out.device))
        opt.zero_grad()
        loss.backward()
        norm = clip(pipe.parameters(), 1.0)
        opt.step()
        print(f"step {step} loss {loss.item():.4f} norm {norm:.4f}")
    with torch.no_grad():
        again = pipe.replay(x.to(first), rank=1)  # BUG 3: any culprit=x
        # FIX: again = pipe.replay(x.to(last), rank=1)
        print(f"replay {again.abs().mean().item():.4f}")
    print("activity", [round(s.item(), 3) for s in pipe.seen])


if __name__ == "__main__":
    main(world=torch.cuda.device_count())
