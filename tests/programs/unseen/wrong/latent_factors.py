"""Rating factors as bare leaf tensors, implicit negatives, and a table of scores copied to the host."""
import numpy as np
import torch
import torch.nn.functional as F

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")


class Factors:
    def __init__(self, users, items, dim, gen):
        self.u = (0.1 * torch.randn(users, dim, generator=gen)).to(device).requires_grad_()
        self.v = torch.randn(items, dim, generator=gen, requires_grad=True).to(device)  # BUG: any culprit=self.v
        # FIX: self.v = torch.randn(items, dim, generator=gen).to(device).requires_grad_()
        self.bias = torch.zeros(items, device=device, requires_grad=True)

    def leaves(self):
        return [self.u, self.v, self.bias]

    def score(self, user, item):
        return (self.u[user] * self.v[item]).sum(-1) + F.embedding(item, self.bias.unsqueeze(1)).squeeze(-1)  # RAISES: 2


class Likes:
    def __init__(self, users, items, rng):
        taste = rng.normal(size=(users, 2)) @ rng.normal(size=(2, items))
        self.user, self.item = np.nonzero(taste > 1.2)
        self.items, self.rng = items, rng

    def batches(self, size):
        order = self.rng.permutation(len(self.user))
        for at in np.array_split(order, max(1, len(order) // size)):
            user = torch.as_tensor(self.user[at], device=device)
            good = torch.as_tensor(self.item[at], device=device)
            bad = torch.as_tensor(self.rng.integers(0, self.items, len(at)))  # BUG: any culprit=bad
            # FIX: bad = torch.as_tensor(self.rng.integers(0, self.items, len(at)), device=device)
            yield user, good, bad


def bpr(model, user, good, bad):
    gap = model.score(user, good) - model.score(user, bad)
    return -F.logsigmoid(gap).mean() + 1e-3 * (model.u[user].square().sum(1).mean())


@torch.no_grad()
def score_table(model):
    """All the scores, as an array; the copy runs while the host makes the mask of what is known."""
    table = model.u @ model.v.t() + model.bias
    host = table.to("cpu", non_blocking=True)  # BUG: any culprit=host  # RAISES: none
    # FIX: host = table.to("cpu")
    return host.numpy()


def mean_rank(table, likes):
    place = (-table).argsort(1).argsort(1)
    return float(place[likes.user, likes.item].mean())


def main():
    rng = np.random.default_rng(64)
    likes = Likes(30, 40, rng)
    model = Factors(30, 40, 4, torch.Generator().manual_seed(64))
    opt = torch.optim.Adam(model.leaves(), lr=3e-2)  # RAISES: 1
    for epoch in range(6):
        total, n = 0.0, 0
        for batch in likes.batches(64):
            loss = bpr(model, *batch)
            opt.zero_grad()
            loss.backward()
            opt.step()
            total, n = total + loss.item(), n + 1
        print(f"epoch {epoch} loss {total / n:.4f} rank {mean_rank(score_table(model), likes):.3f}")


main()
