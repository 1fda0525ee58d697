"""Two-stage model parallel net; stage constants at the top."""
import torch
from torch import nn

FIRST = torch.device("cuda:0")
SECOND = torch.device("cuda:1")


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.ff = nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))

    def forward(self, x):
        return x + self.ff(self.norm(x))


class SplitNet(nn.Module):
    def __init__(self, vocab=17, width=12, depth=4, classes=5):
        super().__init__()
        half = depth // 2
        self.embed = nn.Embedding(vocab, width).to(FIRST)
        self.front = nn.Sequential(*[Block(width) for _ in range(half)]).to(FIRST)
        self.back = nn.Sequential(*[Block(width) for _ in range(half)]).to(SECOND)
        self.skip = nn.Linear(width, width)  # BUG: any culprit=self.skip
        # FIX: self.skip = nn.Linear(width, width).to(SECOND)
        self.head = nn.Linear(width, classes).to(SECOND)

    def forward(self, ids):
        e = self.embed(ids)
        h = self.front(e).to(SECOND)
        z = self.back(h)
        z = z + self.skip(e)  # BUG: any culprit=e # RAISES: 1 # RAISES: 2
        # FIX: z = z + self.skip(e.to(SECOND))
        return self.head(z.mean(dim=1))


def batches(n):
    for i in range(n):
        ids = (torch.arange(24).view(4, 6) * (i + 3)) % 17
        yield ids, ids.sum(dim=1) % 5


def fit(model, steps):
    opt = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    loss_fn = nn.CrossEntropyLoss()
    for ids, y in batches(steps):
        ids, y = ids.to(FIRST), y.to(FIRST)  # BUG: any culprit=y
        # FIX: ids, y = ids.to(FIRST), y.to(SECOND)
        out = model(ids)
        loss = loss_fn(out, y)  # RAISES: 3 # ALSO: 3
        opt.zero_grad()
        loss.backward()
        opt.step()
    return loss


torch.manual_seed(5)
net = SplitNet()
final = fit(net, 12)
print("final loss", round(final.item(), 4))
