"""The embedding is too large for the card: it stays on the host with its own optimizer."""
import torch
import torch.nn as nn
import torch.nn.functional as F

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")


class Offloaded(nn.Module):
    def __init__(self, n_words, dim):
        super().__init__()
        self.host = [nn.EmbeddingBag(n_words, dim, mode="mean", sparse=True)]  # hidden from .to() on purpose
        self.head = nn.Sequential(nn.Linear(dim, 16), nn.ReLU(), nn.Linear(16, 4))

    @property
    def bag(self):
        return self.host[0]

    def forward(self, words, starts):
        h = self.bag(words.cpu(), starts.cpu())
        return self.head(h.to(self.head[0].weight.device, non_blocking=True))

    def host_parameters(self):
        return self.bag.parameters()


def documents(n, n_words, gen):
    y = torch.randint(4, (n,), generator=gen)
    size = torch.randint(3, 9, (n,), generator=gen)
    words = []
    for k, m in zip(y.tolist(), size.tolist()):
        topic = torch.randint(k * n_words // 4, (k + 1) * n_words // 4, (m,), generator=gen)
        noise = torch.randint(n_words, (2,), generator=gen)
        words.append(torch.cat([topic, noise]))
    return words, y


def pack(words):
    flat = torch.cat(words)
    starts = torch.tensor([0] + [len(w) for w in words[:-1]]).cumsum(0)
    return flat, starts


def main():
    torch.manual_seed(20)
    gen = torch.Generator().manual_seed(20)
    words, y = documents(120, 400, gen)
    model = Offloaded(400, 12).to(device)
    slow = torch.optim.SparseAdam(list(model.host_parameters()), lr=2e-2)
    fast = torch.optim.Adam(model.parameters(), lr=1e-2)
    for epoch in range(4):
        total, hits = 0.0, 0
        for i in range(0, 120, 40):
            flat, starts = pack(words[i:i + 40])
            target = y[i:i + 40].to(device)
            out = model(flat, starts)
            loss = F.cross_entropy(out, target)
            slow.zero_grad()
            fast.zero_grad()
            loss.backward()
            slow.step()
            fast.step()
            total += loss.item()
            hits += int((out.argmax(1) == target).sum())
        print(f"epoch {epoch} loss {total / 3:.4f} acc {hits / 120:.3f}")
    norm = model.bag.weight.detach().norm(dim=1)
    print(f"rows {len(norm)} mean norm {norm.mean().item():.4f} head {model.head[0].weight.norm().item():.4f}")


main()
