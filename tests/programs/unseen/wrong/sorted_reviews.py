"""Sentences of different lengths: a Dataset, a collate function, a sampler by length, a classifier by attention."""
import random

import torch
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence, pad_sequence
from torch.utils.data import DataLoader, Dataset, Sampler

WORDS = "<pad> good bad film plot very not boring fun the a is was music slow".split()
USE_CUDA = torch.cuda.is_available()
DEVICE = "cuda" if USE_CUDA else "cpu"


class Reviews(Dataset):
    def __init__(self, n):
        rng = random.Random(4)
        self.items = []
        for _ in range(n):
            ids = [rng.randrange(1, len(WORDS)) for _ in range(rng.randint(3, 9))]
            self.items.append((torch.tensor(ids), float(ids.count(1) + ids.count(8) > ids.count(2))))

    def __len__(self):
        return len(self.items)

    def __getitem__(self, i):
        return self.items[i]


class ByLength(Sampler):
    def __init__(self, data, batch, generator):
        self.data, self.batch, self.generator = data, batch, generator

    def __len__(self):
        return (len(self.data) + self.batch - 1) // self.batch

    def __iter__(self):
        order = sorted(range(len(self.data)), key=lambda i: len(self.data[i][0]))
        groups = [order[i : i + self.batch] for i in range(0, len(order), self.batch)]
        for i in torch.randperm(len(groups), generator=self.generator).tolist():  # RAISES: 1
            yield groups[i]


def collate(rows):
    ids, labels = zip(*rows)
    lengths = torch.tensor([len(r) for r in ids])
    return pad_sequence(ids, batch_first=True), lengths, torch.tensor(labels)


class Tagger(torch.nn.Module):
    def __init__(self, dim=12):
        super().__init__()
        self.embed = torch.nn.Embedding(len(WORDS), dim, padding_idx=0)
        self.rnn = torch.nn.LSTM(dim, dim, batch_first=True)
        self.score = torch.nn.Linear(dim, 1)

    def forward(self, ids, lengths):
        packed = pack_padded_sequence(self.embed(ids), lengths, batch_first=True, enforce_sorted=False)  # RAISES: 2
        h, _ = pad_packed_sequence(self.rnn(packed)[0], batch_first=True)
        ends = torch.tensor(lengths.tolist())[:, None]
        mask = torch.arange(h.shape[1]) >= ends  # ALSO: 3
        att = self.score(h).squeeze(-1).masked_fill(mask, -1e9)  # BUG 3: any culprit=mask # RAISES: 3
        # FIX: att = self.score(h).squeeze(-1).masked_fill(mask.to(h.device), -1e9)
        return (att.softmax(1).unsqueeze(-1) * h).sum(1)


torch.manual_seed(6)
data = Reviews(30)
generator = torch.Generator(DEVICE).manual_seed(6)  # BUG 1: any culprit=generator
# FIX: generator = torch.Generator().manual_seed(6)
loader = DataLoader(data, batch_sampler=ByLength(data, 6, generator), collate_fn=collate)
model, head = Tagger().to(DEVICE), torch.nn.Linear(12, 1).to(DEVICE)
opt = torch.optim.Adam([*model.parameters(), *head.parameters()], lr=2e-2)
loss_fn = torch.nn.BCEWithLogitsLoss(pos_weight=torch.tensor([1.5]))  # BUG 4: any culprit=pos_weight
# FIX: loss_fn = torch.nn.BCEWithLogitsLoss(pos_weight=torch.tensor([1.5])).to(DEVICE)

for epoch in range(3):
    total = 0.0
    for ids, lengths, labels in loader:
        ids, labels = ids.to(DEVICE), labels.to(DEVICE)
        logits = head(model(ids, lengths.to(DEVICE))).squeeze(1)  # BUG 2: any culprit=lengths
        # FIX: logits = head(model(ids, lengths)).squeeze(1)
        loss = loss_fn(logits, labels)  # RAISES: 4
        opt.zero_grad()
        loss.backward()
        opt.step()
        total += loss.item() * len(labels)
    print(f"epoch {epoch} loss {total / len(data):.2f}")
