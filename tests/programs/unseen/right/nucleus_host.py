"""Top-p sampling on the host with a seeded generator, the model on the device."""
import torch
from torch import nn


def nucleus(logits, p, g):
    prob, order = logits.softmax(-1).sort(descending=True)
    keep = prob.cumsum(-1) - prob < p
    prob = prob * keep
    pick = torch.multinomial(prob / prob.sum(-1, keepdim=True), 1, generator=g)
    return order.gather(-1, pick)


@torch.no_grad()
def sample(model, start, n, p=0.8, seed=0):
    g = torch.Generator().manual_seed(seed)
    device = next(model.parameters()).device
    ids = start.to(device)
    for _ in range(n):
        logits = model(ids)[:, -1]
        nxt = nucleus(logits.float().cpu(), p, g)
        ids = torch.cat([ids, nxt.to(device)], 1)
    return ids.cpu()


class Bigram(nn.Module):
    def __init__(self, v):
        super().__init__()
        self.table = nn.Embedding(v, v)

    def forward(self, ids):
        return self.table(ids)


torch.manual_seed(1)
m = Bigram(9)
start = torch.tensor([[1], [2]])
a = sample(m, start, 6)
m.to("cuda" if torch.cuda.is_available() else "cpu")
b = sample(m, start, 6)
print(a.tolist(), torch.equal(a, b))
