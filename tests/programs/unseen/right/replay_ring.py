"""Ring buffer on the host, batches sent to the device; another ring on the device itself."""
import torch


class Ring:
    def __init__(self, n, shape, device="cpu"):
        self.data = torch.zeros(n, *shape, device=device)
        self.pos = self.size = 0

    def add(self, row):
        self.data[self.pos] = row               # assignment copies across devices
        self.pos = (self.pos + 1) % len(self.data)
        self.size = min(self.size + 1, len(self.data))

    def sample(self, k, g, device=None):
        idx = torch.randint(self.size, (k,), generator=g)     # host indices
        return self.data[idx].to(device or self.data.device)

    def sums(self):
        return self.data[: self.size].sum(0)


def main():
    dev = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    g = torch.Generator().manual_seed(3)
    host, fast = Ring(6, (2,)), Ring(6, (2,), dev)
    for i in range(9):
        row = torch.tensor([float(i), i * 0.5])
        host.add(row.to(dev))
        fast.add(row)
    net = torch.nn.Linear(2, 1, bias=False).to(dev)
    torch.nn.init.ones_(net.weight)
    out = net(host.sample(4, g, dev)) + net(fast.sample(4, g))
    print(host.sums().tolist(), fast.sums().tolist(), tuple(out.shape), "%.2f" % out.sum().item())


main()
