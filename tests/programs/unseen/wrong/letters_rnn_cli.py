#!/usr/bin/env python
"""Next-letter GRU with a frequency-weighted loss.

usage: letters_rnn_cli.py [--hidden N] [--steps N] [--device D]
"""

import argparse

import torch
import torch.nn as nn
import torch.nn.functional as F

TEXT = "the quick brown fox jumps over the lazy dog and runs away from the slow green turtle " * 3


def parse_args():
    parser = argparse.ArgumentParser()
    parser.add_argument("--hidden", type=int, default=24)
    parser.add_argument("--steps", type=int, default=6)
    parser.add_argument("--seq", type=int, default=16)
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    return parser.parse_args()


class LetterModel(nn.Module):
    def __init__(self, vocab, hidden):
        super().__init__()
        self.hidden = hidden
        self.embed = nn.Embedding(vocab, hidden)
        self.rnn = nn.GRU(hidden, hidden, batch_first=True)
        self.out = nn.Linear(hidden, vocab)

    def init_state(self, batch):
        return torch.zeros(1, batch, self.hidden)  # BUG: any culprit=state
        # FIX: return torch.zeros(1, batch, self.hidden, device=self.out.weight.device)

    def forward(self, x, state):
        h, state = self.rnn(self.embed(x), state)  # RAISES: 1 # RAISES: 3
        return self.out(h), state


def letter_weights(ids, vocab):
    counts = torch.bincount(ids, minlength=vocab).float()
    return (counts.sum() / (vocab * counts.clamp(min=1))).sqrt()


def batches(ids, args):
    for step in range(args.steps):
        start = (step * 7) % (len(ids) - args.batch * args.seq - 1)
        chunk = ids[start : start + args.batch * args.seq + 1].to(args.device)
        yield chunk[:-1].view(args.batch, args.seq), chunk[1:].view(args.batch, args.seq)


@torch.no_grad()
def sample(model, prime, stoi, itos, length, device):
    model.eval()
    x = torch.tensor([[stoi[c] for c in prime]])  # BUG 3: any culprit=x
    # FIX: x = torch.tensor([[stoi[c] for c in prime]], device=device)
    state = model.init_state(1)
    out = list(prime)
    for _ in range(length):
        logits, state = model(x, state)
        x = logits[:, -1].argmax(-1, keepdim=True)
        out.append(itos[x.item()])
    return "".join(out)


def main():
    args = parse_args()
    torch.manual_seed(11)
    letters = sorted(set(TEXT))
    stoi = {c: i for i, c in enumerate(letters)}
    itos = dict(enumerate(letters))
    ids = torch.tensor([stoi[c] for c in TEXT])

    model = LetterModel(len(letters), args.hidden).to(args.device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-2)
    weights = letter_weights(ids, len(letters))  # BUG 2: any culprit=weights
    # FIX: weights = letter_weights(ids, len(letters)).to(args.device)
    for step, (x, y) in enumerate(batches(ids, args)):
        logits, _ = model(x, model.init_state(args.batch))
        loss = F.cross_entropy(logits.flatten(0, 1), y.flatten(), weight=weights)  # RAISES: 2
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        print(f"step {step} loss {loss.item():.4f}")
    print(sample(model, "the ", stoi, itos, 12, args.device))


if __name__ == "__main__":
    main()
