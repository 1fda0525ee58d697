"""Sequence tagger with a trainer class; batches are dictionaries in dictionaries."""
import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_sequence
from torch.utils.data import DataLoader, Dataset


class Sequences(Dataset):
    def __init__(self, count=24):
        self.count = count
        self.importance = torch.linspace(0.5, 1.5, count)

    def __len__(self):
        return self.count

    def __getitem__(self, i):
        draw = torch.Generator().manual_seed(i)
        tokens = torch.randint(0, 9, (1 + i % 4,), generator=draw)
        return {"tokens": tokens, "label": i % 2, "importance": self.importance[i]}


def collate(samples):
    lengths = torch.tensor([len(s["tokens"]) for s in samples])
    tokens = pad_sequence([s["tokens"] for s in samples], batch_first=True)
    about = {
        "label": torch.tensor([float(s["label"]) for s in samples]),
        "importance": torch.stack([s["importance"] for s in samples]),
    }
    return {"tokens": tokens, "lengths": lengths.tolist(), "about": about}


class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(9, 5)
        self.reader = nn.LSTM(5, 6, batch_first=True)
        self.score = nn.Linear(6, 1)

    def forward(self, tokens, lengths):
        packed = pack_padded_sequence(self.embed(tokens), lengths, batch_first=True, enforce_sorted=False)
        _, (hidden, _) = self.reader(packed)
        return self.score(hidden[-1]).squeeze(-1)


class Trainer:
    def __init__(self, model, device):
        self.device = device
        self.model = model.to(device)
        self.optimizer = torch.optim.Adagrad(model.parameters())
        self.rare = torch.tensor([2.0])  # BUG 1: default-device culprit=trainer.rare
        # FIX: self.rare = torch.tensor([2.0], device=device)

    def moved(self, batch):
        return {name: value.to(self.device) if torch.is_tensor(value) else value for name, value in batch.items()}  # BUG 2: batch-not-moved culprit=labels
        # FIX: return {name: value.to(self.device) if torch.is_tensor(value) else value if not isinstance(value, dict) else self.moved(value) for name, value in batch.items()}

    def loss(self, scores, labels):
        return nn.functional.binary_cross_entropy_with_logits(  # RAISES: 1  # RAISES: 2
            scores, labels, pos_weight=self.rare, reduction="none"
        )

    def step(self, batch):
        batch = self.moved(batch)
        scores = self.model(batch["tokens"], batch["lengths"])
        loss = (self.loss(scores, batch["about"]["label"]) * batch["about"]["importance"]).mean()
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return loss.item()


torch.manual_seed(0)
trainer = Trainer(Tagger(), torch.device("cuda", 0))
for number, batch in enumerate(DataLoader(Sequences(), batch_size=6, collate_fn=collate)):
    print(number, f"{trainer.step(batch):.4f}")
