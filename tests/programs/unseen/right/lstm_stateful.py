import torch
from torch import nn


class Stateful(nn.Module):
    """Truncated BPTT; the state is created lazily next to the input."""

    def __init__(self, v, h):
        super().__init__()
        self.emb, self.lstm, self.out = nn.Embedding(v, h), nn.LSTM(h, h), nn.Linear(h, v)
        self.state = None

    def reset(self):
        self.state = None

    def forward(self, ids):
        e = self.emb(ids)
        if self.state is None:
            z = e.new_zeros(1, ids.size(1), e.size(-1))
            self.state = (z, z.clone())
        y, state = self.lstm(e, self.state)
        self.state = tuple(s.detach() for s in state)
        return self.out(y)


def main():
    torch.manual_seed(4)
    text = "abracadabra alakazam " * 3
    vocab = sorted(set(text))
    ids = torch.tensor([vocab.index(c) for c in text[:60]]).view(2, 30).t()
    model = Stateful(len(vocab), 8)
    for device in ("cpu", "cuda"):
        model.to(device)
        model.reset()                                   # the state of the other device is dropped
        opt = torch.optim.Adam(model.parameters(), lr=1e-2)
        for k in range(0, 24, 6):
            x, y = ids[k : k + 6].to(device), ids[k + 1 : k + 7].to(device)
            loss = nn.functional.cross_entropy(model(x).flatten(0, 1), y.flatten())
            opt.zero_grad()
            loss.backward()
            opt.step()
        print(device, "%.4f" % loss.item(), model.state[0].device.type)


main()
