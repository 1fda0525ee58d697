"""Truncated backprop through time over a symbolic stream, with a checkpoint in the middle."""
import io

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F


class Stream:
    """A noisy cyclic grammar, cut into parallel tracks."""

    def __init__(self, n_sym, length, tracks, seed):
        rng = np.random.default_rng(seed)
        s = [0]
        for _ in range(length - 1):
            s.append(int(rng.integers(n_sym)) if rng.random() < 0.15 else (s[-1] + 1) % n_sym)
        self.data = torch.tensor(s).view(tracks, -1).t().contiguous()
        self.freq = torch.bincount(self.data.flatten(), minlength=n_sym).float()

    def chunks(self, bptt):
        for i in range(0, len(self.data) - 1 - bptt, bptt):
            yield self.data[i:i + bptt], self.data[i + 1:i + 1 + bptt]


class CharLSTM(nn.Module):
    def __init__(self, n_sym, width=24, layers=2):
        super().__init__()
        self.emb = nn.Embedding(n_sym, width)
        self.lstm = nn.LSTM(width, width, layers)
        self.out = nn.Linear(width, n_sym)
        self.shape = (layers, width)

    def fresh_state(self, tracks):
        layers, width = self.shape
        zero = torch.zeros(layers, tracks, width)  # BUG: any culprit=zero
        # FIX: zero = torch.zeros(layers, tracks, width, device=self.out.weight.device)
        return zero, zero.clone()

    def forward(self, ids, state):
        h, state = self.lstm(self.emb(ids), state)  # RAISES: 1
        return self.out(h), state


class Learner:
    def __init__(self, n_sym, freq, device):
        self.device = device
        self.model = CharLSTM(n_sym).to(device)
        self.opt = torch.optim.RMSprop(self.model.parameters(), lr=4e-3)
        self.rarity = (freq.mean() / freq).to(device)

    def train(self, stream, bptt):
        state, total, n = None, 0.0, 0
        for x, y in stream.chunks(bptt):
            x, y = x.to(self.device), y.to(self.device)
            state = self.model.fresh_state(x.shape[1]) if state is None else tuple(s.detach() for s in state)
            logits, state = self.model(x, state)
            loss = F.cross_entropy(logits.flatten(0, 1), y.flatten(), weight=self.rarity)  # RAISES: 2
            self.opt.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
            self.opt.step()
            total, n = total + loss.item(), n + 1
        return total / n

    def save(self, f):
        torch.save({"model": self.model.state_dict(), "opt": self.opt.state_dict(), "rarity": self.rarity}, f)

    def restore(self, f):
        f.seek(0)
        ckpt = torch.load(f, map_location="cpu")  # ALSO: 2
        self.model.load_state_dict(ckpt["model"])
        self.opt.load_state_dict(ckpt["opt"])
        self.rarity = ckpt["rarity"]  # BUG: any culprit=self.rarity
        # FIX: self.rarity = ckpt["rarity"].to(self.device)

    @torch.no_grad()
    def continue_from(self, prompt, n, rng):
        state = self.model.fresh_state(1)
        ids = torch.tensor(prompt, device=self.device).unsqueeze(1)
        for _ in range(n):
            logits, state = self.model(ids, state)
            p = logits[-1, 0].double().softmax(0)  # BUG: any culprit=p
            # FIX: p = logits[-1, 0].double().softmax(0).cpu()
            prompt.append(int(rng.choice(len(p), p=p.numpy())))  # RAISES: 3  # ALSO: 3
            ids = torch.tensor([[prompt[-1]]], device=self.device)
        return prompt


def main():
    torch.manual_seed(14)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    stream = Stream(6, 800, 8, seed=2)
    learner = Learner(6, stream.freq, device)
    for epoch in range(2):
        print(f"epoch {epoch} loss {learner.train(stream, 12):.4f}")
    blob = io.BytesIO()
    learner.save(blob)
    resumed = Learner(6, torch.ones(6), device)
    resumed.restore(blob)
    print(f"resumed loss {resumed.train(stream, 12):.4f}")
    print(resumed.continue_from([0, 1, 2], 8, np.random.default_rng(0)))


main()
