import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(6, 3)
        self.register_buffer("offset", torch.arange(3.0), persistent=False)

    def forward(self, x):
        # made where the replica's input is
        pos = torch.linspace(0, 1, x.size(1), device=x.device)
        return self.fc(x + pos) + self.offset


def main():
    torch.manual_seed(11)
    net = Net().cuda()
    ids = list(range(torch.cuda.device_count()))
    model = nn.DataParallel(net, device_ids=ids) if len(ids) > 1 else net
    opt = torch.optim.SGD(model.parameters(), lr=0.05)
    x = torch.sin(torch.arange(60.0)).view(10, 6)
    y = torch.arange(10) % 3
    for _ in range(5):
        out = model(x)                 # DataParallel scatters host tensors by itself
        loss = nn.functional.cross_entropy(out, y.to(out.device))
        opt.zero_grad()
        loss.backward()
        opt.step()
    bare = model.module if isinstance(model, nn.DataParallel) else model
    print("%.4f" % loss.item(), sorted(bare.state_dict()), bare.fc.weight.device)


main()
