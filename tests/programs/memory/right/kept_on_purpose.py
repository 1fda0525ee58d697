"""What grows with every step and is meant to: records without graphs, a buffer that fills, losses that are used later."""

import collections

import torch
from torch import nn

STEPS = 24


def train(model, after):
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for step in range(STEPS):
        x = torch.full((4, 8), step / STEPS, device="cuda")
        out = model(x)
        loss = out.square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        after(step, x, out, loss)


def records(model):
    """Losses without their graphs, all of them."""
    history = []
    train(model, lambda step, x, out, loss: history.append(loss.detach()))
    return len(history)


def replay(model):
    """A buffer that fills up and then stays as it is."""
    buffer = collections.deque(maxlen=16)
    train(model, lambda step, x, out, loss: buffer.append((x, out.detach())))
    return len(buffer)


def cache(model):
    """One entry for each input that was seen."""
    seen = {}
    train(model, lambda step, x, out, loss: seen.setdefault(step % 12, x))
    return len(seen)


def sequence(model):
    """A sequence that grows by one with every step."""
    whole = torch.zeros(1, 8, device="cuda")

    def longer(step, x, out, loss):
        nonlocal whole
        whole = torch.cat([whole, x[:1]])

    train(model, longer)
    return len(whole)


def last_loss(model):
    """The loss of the last step, with its graph."""
    last = None

    def keep(step, x, out, loss):
        nonlocal last
        last = loss

    train(model, keep)
    return last is not None


def later(model):
    """Another model's losses, added up over the steps and used at the end."""
    other = nn.Linear(8, 1).cuda()
    losses = []
    train(model, lambda step, x, out, loss: losses.append(other(x).square().mean()))
    torch.stack(losses).sum().backward()
    return other.weight.grad is not None


def main():
    torch.manual_seed(0)
    for kept in (records, replay, cache, sequence, last_loss, later):
        model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 1)).cuda()
        print(kept.__name__, kept(model))


main()
