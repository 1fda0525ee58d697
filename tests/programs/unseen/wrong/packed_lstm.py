"""Sentence classifier with variable lengths: collate_fn, packing, attention pooling."""
import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence, pad_sequence
from torch.utils.data import DataLoader, Dataset

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")


class Sentences(Dataset):
    def __init__(self):
        self.items = [[(3 * i + j * j) % 13 + 1 for j in range(2 + i % 5)] for i in range(20)]

    def __len__(self):
        return len(self.items)

    def __getitem__(self, i):
        toks = self.items[i]
        return torch.tensor(toks), int(sum(toks) % 2)


def collate(samples):
    toks, labels = zip(*samples)
    lengths = torch.tensor([len(t) for t in toks])
    return pad_sequence(toks, batch_first=True), lengths, torch.tensor(labels)


class Classifier(nn.Module):
    def __init__(self, vocab=14, dim=8):
        super().__init__()
        self.emb = nn.Embedding(vocab, dim, padding_idx=0)
        self.lstm = nn.LSTM(dim, dim, batch_first=True, bidirectional=True)
        self.query = nn.Parameter(torch.randn(2 * dim))
        self.fc = nn.Linear(2 * dim, 2)

    def forward(self, toks, lengths):
        packed = pack_padded_sequence(self.emb(toks), lengths, batch_first=True, enforce_sorted=False)  # RAISES: 1 # ALSO: 1
        h, _ = pad_packed_sequence(self.lstm(packed)[0], batch_first=True)
        score = h @ self.query
        pad = torch.arange(h.size(1), device=h.device)[None] >= lengths[:, None]  # BUG 2: any culprit=lengths # RAISES: 2
        # FIX: pad = torch.arange(h.size(1), device=h.device)[None] >= lengths.to(h.device)[:, None]
        w = score.masked_fill(pad, -1e4).softmax(1)
        return self.fc((w.unsqueeze(-1) * h).sum(1))


def train():
    torch.manual_seed(15)
    model = Classifier().to(DEVICE)
    opt = torch.optim.Adam(model.parameters(), lr=1e-2)
    for epoch in range(3):
        for toks, lengths, labels in DataLoader(Sentences(), batch_size=5, collate_fn=collate):
            toks, lengths, labels = toks.to(DEVICE), lengths.to(DEVICE), labels.to(DEVICE)  # BUG 1: any culprit=lengths
            # FIX: toks, labels = toks.to(DEVICE), labels.to(DEVICE)
            loss = nn.functional.cross_entropy(model(toks, lengths), labels)
            opt.zero_grad()
            loss.backward()
            opt.step()
    return loss.item()


print("loss", round(train(), 4))
