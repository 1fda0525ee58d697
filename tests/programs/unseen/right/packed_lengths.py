"""Sentiment on token streams: packed LSTM, lengths deliberately kept on the host."""
import torch
import torch.nn as nn
from torch.nn.utils.rnn import pack_sequence, pad_packed_sequence, pack_padded_sequence, pad_sequence


class Attentive(nn.Module):
    def __init__(self, vocab, dim):
        super().__init__()
        self.emb = nn.Embedding(vocab, dim)
        self.rnn = nn.LSTM(dim, dim, bidirectional=True, batch_first=True)
        self.score = nn.Linear(2 * dim, 1)
        self.out = nn.Linear(2 * dim, 2)

    def forward(self, ids, lengths):
        packed = pack_padded_sequence(self.emb(ids), lengths, batch_first=True, enforce_sorted=False)
        states, back = pad_packed_sequence(self.rnn(packed)[0], batch_first=True)
        valid = torch.arange(states.shape[1]) < back[:, None]
        weight = self.score(states).squeeze(-1).masked_fill(~valid.to(states.device), -1e9).softmax(-1)
        return self.out(torch.einsum("bt,btd->bd", weight, states)), weight


class Bucketed:
    """Yields padded batches; lengths never leave the host."""

    def __init__(self, texts, labels, size, device):
        self.texts, self.labels, self.size, self.device = texts, labels, size, device

    def __iter__(self):
        order = sorted(range(len(self.texts)), key=lambda i: (len(self.texts[i]), i))
        for lo in range(0, len(order), self.size):
            rows = order[lo:lo + self.size]
            chosen = [self.texts[i] for i in rows]
            lengths = torch.tensor([len(c) for c in chosen])
            yield pad_sequence(chosen, batch_first=True).to(self.device), lengths, self.labels[rows].to(self.device)


def corpus(n, vocab, seed):
    g = torch.Generator().manual_seed(seed)
    texts = [torch.randint(1, vocab, (int(torch.randint(3, 12, (1,), generator=g)),), generator=g) for _ in range(n)]
    labels = torch.tensor([int((t < vocab // 2).float().mean() > 0.5) for t in texts])
    return texts, labels


def main():
    torch.manual_seed(18)
    device = "cuda"
    texts, labels = corpus(96, 30, seed=2)
    net = Attentive(30, 12).to(device)
    opt = torch.optim.Adam(net.parameters(), lr=1e-2)
    for epoch in range(4):
        hits = torch.zeros((), dtype=torch.long)
        for ids, lengths, y in Bucketed(texts, labels, 24, device):
            logits, weight = net(ids, lengths)
            loss = nn.functional.cross_entropy(logits, y)
            opt.zero_grad()
            loss.backward()
            opt.step()
            hits += (logits.argmax(1) == y).sum().cpu()
        print(epoch, f"{loss.item():.4f}", hits.item() / len(texts))
    with torch.no_grad():
        packed = pack_sequence([net.emb(t.to(device)) for t in texts[:3]], enforce_sorted=False)
        out, sizes = pad_packed_sequence(net.rnn(packed)[0])
    print(sizes.tolist(), round(out.abs().mean().item(), 4), round(weight.max().item(), 4))


main()
