# compare: close
# devices: 1
"""GRU encoder and attention decoder with teacher forcing: learns to reverse a sequence."""

import argparse
import random

import torch
import torch.nn as nn
import torch.nn.functional as F

SOS, SYMBOLS, LENGTH, HIDDEN = 0, 12, 6, 32


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(SYMBOLS, HIDDEN)
        self.gru = nn.GRU(HIDDEN, HIDDEN)

    def forward(self, source):
        return self.gru(self.embedding(source))


class Decoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(SYMBOLS, HIDDEN)
        self.cell = nn.GRUCell(HIDDEN * 2, HIDDEN)
        self.out = nn.Linear(HIDDEN, SYMBOLS)

    def forward(self, token, hidden, memory):
        scores = torch.einsum("bh,sbh->bs", hidden, memory)
        context = torch.einsum("bs,sbh->bh", F.softmax(scores, dim=1), memory)
        hidden = self.cell(torch.cat([self.embedding(token), context], dim=1), hidden)
        return self.out(hidden), hidden


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--no-cuda", action="store_true")
    args = parser.parse_args()
    device = torch.device("cuda" if not args.no_cuda and torch.cuda.is_available() else "cpu")
    torch.manual_seed(0)
    random.seed(0)

    encoder, decoder = Encoder().to(device), Decoder().to(device)
    encoder_optimizer = torch.optim.RMSprop(encoder.parameters(), lr=3e-3)
    decoder_optimizer = torch.optim.RMSprop(decoder.parameters(), lr=3e-3)
    source = torch.randint(1, SYMBOLS, (LENGTH, 32))
    target = source.flip(0)
    source, target = source.to(device), target.to(device)

    for epoch in range(args.epochs):
        memory, hidden = encoder(source)
        hidden = hidden.squeeze(0)
        token = torch.full((32,), SOS, dtype=torch.long, device=device)
        loss = 0
        teach = random.random() < 0.7
        for t in range(LENGTH):
            logits, hidden = decoder(token, hidden, memory)
            loss += F.cross_entropy(logits, target[t])
            token = target[t] if teach else logits.topk(1)[1].squeeze(1).detach()
        encoder_optimizer.zero_grad()
        decoder_optimizer.zero_grad()
        loss.backward()
        encoder_optimizer.step()
        decoder_optimizer.step()
        print(f"epoch {epoch} loss {loss.item() / LENGTH:.4f}")
    assert memory.device.type == device.type


if __name__ == "__main__":
    main()
