"""Written against an accelerator object that prepares what it is given (as the library of that name does)."""
from types import SimpleNamespace

import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset


class Accelerator:
    def __init__(self):
        self.device = torch.device("cuda", torch.cuda.current_device()) if torch.cuda.is_available() else torch.device("cpu")

    def prepare(self, *things):
        return tuple(self._prepare(thing) for thing in things)

    def _prepare(self, thing):
        if isinstance(thing, nn.Module):
            return thing.to(self.device)
        if isinstance(thing, DataLoader):
            return Feed(thing, self.device)
        return thing

    def backward(self, loss):
        loss.backward()

    def gather(self, tensor):
        return tensor.detach().clone()


class Feed:
    def __init__(self, loader, device):
        self.loader, self.device = loader, device

    def __iter__(self):
        for batch in self.loader:
            yield [t.to(self.device) for t in batch]


class Prompted(nn.Module):
    """A frozen body behind a trainable prompt."""

    def __init__(self, vocab, dim, prompt):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim)
        self.prompt = nn.Parameter(torch.zeros(prompt, dim))
        self.body = nn.GRU(dim, dim, batch_first=True)
        self.head = nn.Linear(dim, 2)

    def forward(self, ids):
        x = self.embed(ids)
        x = torch.cat([self.prompt.expand(len(ids), -1, -1), x], 1)
        return self.head(self.body(x)[0][:, -1])


class Adapter(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.down, self.up = nn.Linear(dim, 2), nn.Linear(2, dim)

    def forward(self, x):
        return x + self.up(torch.relu(self.down(x)))  # RAISES: 1


def data(n):
    ids = (torch.arange(n * 5).view(n, 5) * 7) % 11
    return TensorDataset(ids, (ids[:, 0] > 5).long())


def evaluate(accelerator, model, loader, args):
    model.eval()
    logits, labels = [], []
    with torch.no_grad():
        for ids, y in loader:
            logits.append(accelerator.gather(model(ids)))
            labels.append(accelerator.gather(y).cpu())  # ALSO: 3
    logits, labels = torch.cat(logits), torch.cat(labels)
    model.train()
    prior = torch.tensor(args.prior).log()  # ALSO: 2
    adjusted = logits + prior  # BUG 2: any culprit=prior # RAISES: 2
    # FIX: adjusted = logits + prior.to(logits.device)
    return nn.functional.cross_entropy(adjusted, labels).item()  # BUG 3: any culprit=labels # RAISES: 3
    # FIX: return nn.functional.cross_entropy(adjusted, labels.to(adjusted.device)).item()


def main():
    args = SimpleNamespace(lr=0.02, epochs=3, batch=8, prior=[0.4, 0.6])
    torch.manual_seed(77)
    accelerator = Accelerator()
    model, adapter = Prompted(11, 8, 2), Adapter(8)  # ALSO: 1
    opt = torch.optim.AdamW([model.prompt, *model.head.parameters(), *adapter.parameters()], lr=args.lr)
    train, test = DataLoader(data(32), args.batch), DataLoader(data(20), args.batch)
    model, opt, train, test = accelerator.prepare(model, opt, train, test)  # BUG 1: any culprit=adapter
    # FIX: model, adapter, opt, train, test = accelerator.prepare(model, adapter, opt, train, test)
    model.embed.register_forward_hook(lambda module, args, out: adapter(out))
    for epoch in range(args.epochs):
        for ids, y in train:
            loss = nn.functional.cross_entropy(model(ids), y)
            opt.zero_grad()
            accelerator.backward(loss)
            opt.step()
        print(f"epoch {epoch} train {loss.item():.4f} test {evaluate(accelerator, model, test, args):.4f}")


main()
