"""A trainer built from a nested config: registries for models and losses, hooks by name."""
from dataclasses import dataclass, field

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


@dataclass
class LossConfig:
    name: str = "ce"
    class_counts: tuple = (30, 8, 2)


@dataclass
class Config:
    hidden: int = 16
    epochs: int = 2
    device: str = "cuda:0"
    loss: LossConfig = field(default_factory=LossConfig)


LOSSES = {}


def register(name):
    def wrap(builder):
        LOSSES[name] = builder
        return builder

    return wrap


@register("ce")
def build_ce(cfg):
    counts = torch.tensor(cfg.class_counts, dtype=torch.float)
    return nn.CrossEntropyLoss(weight=counts.sum() / counts)


class Trainer:
    def __init__(self, cfg: Config):
        self.cfg = cfg
        self.device = torch.device(cfg.device)
        self.model = nn.Sequential(nn.Linear(6, cfg.hidden), nn.GELU(), nn.Linear(cfg.hidden, 3)).to(self.device)
        self.criterion = LOSSES[cfg.loss.name](cfg.loss)  # BUG: loss-weight culprit=trainer.criterion.weight  # ALSO: 1
        # FIX: self.criterion = LOSSES[cfg.loss.name](cfg.loss).to(self.device)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-2)
        self.confusion = torch.zeros(3, 3, dtype=torch.long)  # BUG: default-device culprit=trainer.confusion
        # FIX: self.confusion = torch.zeros(3, 3, dtype=torch.long, device=self.device)

    def step(self, batch):
        inputs, labels = (t.to(self.device) for t in batch)
        logits = self.model(inputs)
        loss = self.criterion(logits, labels)  # RAISES: 1
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        self.confusion.index_put_((labels, logits.argmax(1)), torch.ones_like(labels), accumulate=True)  # RAISES: 2
        return loss.item()

    def fit(self, loader):
        for epoch in range(self.cfg.epochs):
            total = sum(self.step(batch) for batch in loader)
            print("epoch", epoch, total > 0)


torch.manual_seed(0)
data = TensorDataset(torch.randn(24, 6), torch.randint(0, 3, (24,)))
trainer = Trainer(Config())
trainer.fit(DataLoader(data, batch_size=8, shuffle=True))
print(int(trainer.confusion.sum()))
