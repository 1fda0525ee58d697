"""A Trainer in the manner of the big libraries; batches are nested dictionaries."""

from dataclasses import dataclass, field

import torch
from torch import nn
from torch.utils.data import DataLoader


@dataclass
class TrainingArguments:
    epochs: int = 1
    learning_rate: float = 1e-2
    batch_size: int = 4
    device: torch.device = field(default_factory=lambda: torch.device("cuda:0"))


class Pooler(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(20, 8)
        self.out = nn.Linear(8, 2)

    def forward(self, input_ids, attention):
        h = self.embed(input_ids)
        mask = attention["mask"].unsqueeze(-1)
        h = (h * mask).sum(1) / mask.sum(1)  # RAISES: 1  # ALSO: 1
        return self.out(h)


class Trainer:
    def __init__(self, model, args, train_dataset):
        self.args = args
        self.model = model.to(args.device)
        self.loader = DataLoader(train_dataset, batch_size=args.batch_size)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=args.learning_rate)

    def prepare_inputs(self, inputs):
        return {k: v.to(self.args.device) if isinstance(v, torch.Tensor) else v for k, v in inputs.items()}  # BUG: batch-not-moved culprit=inputs["attention"]["mask"]|attention["mask"]|mask|batch["attention"]["mask"]
        # FIX: if isinstance(inputs, torch.Tensor):
            # FIX: return inputs.to(self.args.device)
        # FIX: return {k: self.prepare_inputs(v) for k, v in inputs.items()}

    def compute_loss(self, inputs):
        labels = inputs.pop("labels")
        return nn.functional.cross_entropy(self.model(**inputs), labels)

    def train(self):
        for epoch in range(self.args.epochs):
            for step, inputs in enumerate(self.loader):  # ALSO: 1
                inputs = self.prepare_inputs(inputs)  # ALSO: 1
                loss = self.compute_loss(inputs)
                self.optimizer.zero_grad()
                loss.backward()
                self.optimizer.step()
                print({"epoch": epoch, "step": step, "loss": round(loss.item(), 4)})


torch.manual_seed(0)
dataset = [
    {
        "input_ids": torch.randint(0, 20, (6,)),
        "attention": {"mask": (torch.arange(6) < 2 + i % 4).float()},
        "labels": torch.tensor(i % 2),
    }
    for i in range(12)
]
Trainer(Pooler(), TrainingArguments(), dataset).train()
