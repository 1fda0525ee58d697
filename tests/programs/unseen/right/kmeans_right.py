import torch


@torch.no_grad()
def kmeans(x, k, iters=8):
    c = x[torch.linspace(0, len(x) - 1, k).long()].clone()      # host indices
    for _ in range(iters):
        a = torch.cdist(x, c).argmin(1)
        onehot = torch.nn.functional.one_hot(a, k).to(x.dtype)
        n = onehot.sum(0)
        c = torch.where(n[:, None] > 0, onehot.T @ x / n.clamp(min=1)[:, None], c)
    return a, c


def report(a, c, names):
    sizes = torch.bincount(a, minlength=len(c)).cpu()
    for i in sizes.argsort(descending=True):
        yield names[i], int(sizes[i]), [round(v, 3) for v in c[i].tolist()]


dev = torch.device("cuda:1" if torch.cuda.device_count() > 1 else "cpu")
base = torch.tensor([[0.0, 0.0], [3.0, 3.0], [-3.0, 2.0]])
x = (base.repeat_interleave(torch.tensor([10, 6, 4]), 0) + 0.3 * torch.sin(torch.arange(40.0)).view(20, 2)).to(dev)
a, c = kmeans(x, 3)
for row in report(a, c, "abc"):
    print(*row)
new = torch.tensor([[2.5, 2.9]])
print(torch.cdist(new.to(c), c).argmin().item(), torch.cdist(new, c.cpu()).argmin().item())
