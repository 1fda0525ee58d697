"""Trains a small text classifier that is split over two GPUs. Without any: locus run --devices 2 examples/train_two_gpus.py"""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

FIRST, SECOND = torch.device("cuda:0"), torch.device("cuda:1")
VOCABULARY, LENGTH, WIDTH, CLASSES = 100, 12, 32, 3


class Encoder(nn.Module):
    """Lives on the first GPU."""

    def __init__(self):
        super().__init__()
        self.tokens = nn.Embedding(VOCABULARY, WIDTH)
        self.places = nn.Embedding(LENGTH, WIDTH)
        self.register_buffer("scale", torch.linspace(0.5, 1.5, WIDTH))
        self.mix = nn.Linear(WIDTH, WIDTH)

    def forward(self, tokens):
        places = torch.arange(tokens.shape[1], device=tokens.device)
        x = self.tokens(tokens) + self.places(places)
        return torch.tanh(self.mix(x * self.scale))


class Classifier(nn.Module):
    """The encoder on the first GPU, the head on the second."""

    def __init__(self):
        super().__init__()
        self.encoder = Encoder().to(FIRST)
        self.head = nn.Sequential(nn.LayerNorm(WIDTH), nn.Linear(WIDTH, CLASSES)).to(SECOND)

    def forward(self, tokens):
        hidden = self.encoder(tokens)
        return self.head(hidden.mean(dim=1).to(SECOND))


def synthetic_data(count=256):
    tokens = torch.randint(0, VOCABULARY, (count, LENGTH))
    return TensorDataset(tokens, tokens.sum(dim=1) % CLASSES)


def main():
    torch.manual_seed(0)
    loader = DataLoader(synthetic_data(), batch_size=64)
    model = Classifier()
    class_weight = torch.tensor([1.0, 1.2, 0.8])
    criterion = nn.CrossEntropyLoss(weight=class_weight).to(SECOND)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    for epoch in range(3):
        total = 0.0
        for tokens, labels in loader:
            logits = model(tokens.to(FIRST))
            loss = criterion(logits, labels.to(SECOND))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item()
        print(f"epoch {epoch}  loss {total / len(loader):.4f}")


if __name__ == "__main__":
    main()
