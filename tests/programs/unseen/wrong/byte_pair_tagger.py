"""Learns merges on a toy corpus, then tags token spans with a masked transformer."""
import random
from collections import Counter

import torch
import torch.nn as nn
from torch.utils.data import DataLoader, Dataset, Sampler

WORDS = "banana bandana ananas cabana panama canada nada dacha chaca abacab cadab".split()


class Merger:
    def __init__(self, words, n_merges):
        self.merges = []
        seqs = [list(w) for w in words]
        for _ in range(n_merges):
            pairs = Counter(p for s in seqs for p in zip(s, s[1:]))
            best = max(pairs, key=lambda p: (pairs[p], p))
            self.merges.append(best)
            seqs = [self._apply(s, best) for s in seqs]
        symbols = sorted({c for w in words for c in w} | {a + b for a, b in self.merges})
        self.index = {s: i + 1 for i, s in enumerate(symbols)}

    @staticmethod
    def _apply(seq, pair):
        out, i = [], 0
        while i < len(seq):
            if tuple(seq[i:i + 2]) == pair:
                out.append(seq[i] + seq[i + 1])
                i += 2
            else:
                out.append(seq[i])
                i += 1
        return out

    def encode(self, word):
        seq = list(word)
        for pair in self.merges:
            seq = self._apply(seq, pair)
        return [self.index[s] for s in seq]


class Phrases(Dataset):
    def __init__(self, merger, n, rng):
        self.rows = []
        for _ in range(n):
            ids, tags = [], []
            for word in rng.choices(WORDS, k=rng.randint(1, 3)):
                enc = merger.encode(word)
                ids += enc
                tags += [1] + [2] * (len(enc) - 1)
            self.rows.append((ids, tags))

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        return self.rows[i]


class ByLength(Sampler):
    def __init__(self, data):
        self.order = sorted(range(len(data)), key=lambda i: len(data[i][0]))

    def __iter__(self):
        return iter(self.order)

    def __len__(self):
        return len(self.order)


def collate(rows):
    width = max(len(ids) for ids, _ in rows)
    pad = lambda seq: seq + [0] * (width - len(seq))
    return torch.tensor([pad(i) for i, _ in rows]), torch.tensor([pad(t) for _, t in rows])


class Tagger(nn.Module):
    def __init__(self, vocab, dim=24, limit=40):
        super().__init__()
        self.tok = nn.Embedding(vocab, dim, padding_idx=0)
        self.pos = nn.Embedding(limit, dim)
        self.attn = nn.MultiheadAttention(dim, 3, batch_first=True)
        self.norm = nn.LayerNorm(dim)
        self.head = nn.Linear(dim, 3)

    def forward(self, ids):
        where = torch.arange(ids.shape[1])  # BUG: any culprit=where
        # FIX: where = torch.arange(ids.shape[1], device=ids.device)
        h = self.tok(ids) + self.pos(where)  # RAISES: 1
        a, _ = self.attn(h, h, h, key_padding_mask=ids == 0, need_weights=False)
        return self.head(self.norm(h + a))


def main():
    rng = random.Random(3)
    torch.manual_seed(3)
    device = "cuda"
    merger = Merger(WORDS, 8)
    data = Phrases(merger, 96, rng)
    net = Tagger(len(merger.index) + 1).to(device)
    criterion = nn.CrossEntropyLoss(weight=torch.tensor([0.0, 1.0, 0.6]))  # BUG: any culprit=criterion
    # FIX: criterion = nn.CrossEntropyLoss(weight=torch.tensor([0.0, 1.0, 0.6])).to(device)
    opt = torch.optim.Adam(net.parameters(), lr=5e-3)
    for epoch in range(4):
        total = seen = 0
        for ids, tags in DataLoader(data, batch_size=16, sampler=ByLength(data), collate_fn=collate):
            ids, _ = ids.to(device), tags.to(device)  # BUG: any
            # FIX: ids, tags = ids.to(device), tags.to(device)
            loss = criterion(net(ids).transpose(1, 2), tags)  # RAISES: 2  # RAISES: 3
            opt.zero_grad()
            loss.backward()
            opt.step()
            total += loss.item() * len(ids)
            seen += len(ids)
        print(epoch, round(total / seen, 4))


main()
