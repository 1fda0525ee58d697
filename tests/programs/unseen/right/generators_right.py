"""One generator per device, and the host's for the order of the data."""
import torch
from torch.utils.data import DataLoader, RandomSampler, TensorDataset, random_split


class RNG:
    def __init__(self, seed):
        self.seed = seed
        self.by_device = {}

    def __getitem__(self, device):
        device = torch.device(device)
        if device not in self.by_device:
            self.by_device[device] = torch.Generator(device=device).manual_seed(self.seed)
        return self.by_device[device]


def main():
    rng = RNG(7)
    dev = torch.device("cuda:0" if torch.cuda.is_available() else "cpu")
    ds = TensorDataset(torch.arange(20.0), torch.arange(20))
    train, test = random_split(ds, [15, 5], generator=rng["cpu"])
    loader = DataLoader(train, batch_size=5, sampler=RandomSampler(train, generator=rng["cpu"]))
    seen = []
    for x, i in loader:
        noise = torch.rand(x.shape, generator=rng[dev], device=dev)
        y = x.to(dev) + noise
        assert bool((y >= x.to(dev)).all())
        seen += i.tolist()
    w = torch.tensor([0.0, 1.0, 0.0], device=dev)
    pick = torch.multinomial(w, 4, replacement=True, generator=rng[dev])
    perm = torch.randperm(6, generator=rng[dev], device=dev)
    host = torch.randperm(6, generator=rng["cpu"])
    normal = torch.empty(3, device=dev).normal_(generator=rng[dev])
    print(len(seen), len(test), pick.tolist(), perm.sum().item(), host.sum().item(), normal.numel())


main()
