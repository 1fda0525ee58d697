"""Keyword spotting on synthetic tones: STFT, mel pooling, GRU over packed clips."""
import math

import torch
import torch.nn as nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_sequence

RATE, N_FFT, HOP, N_MEL = 4000, 128, 64, 20


def mel_matrix(n_freq, n_mel):
    hz = torch.linspace(0, RATE / 2, n_freq)
    mel_edges = torch.linspace(0, 2595 * math.log10(1 + RATE / 1400), n_mel + 2)
    edges = 700 * (10 ** (mel_edges / 2595) - 1)
    lo, mid, hi = edges[:-2, None], edges[1:-1, None], edges[2:, None]
    return torch.minimum((hz - lo) / (mid - lo), (hi - hz) / (hi - mid)).clamp(min=0)


class LogMel(nn.Module):
    def __init__(self):
        super().__init__()
        self.window = torch.hann_window(N_FFT)  # BUG: any culprit=self.window
        # FIX: self.register_buffer("window", torch.hann_window(N_FFT))
        self.register_buffer("mel", mel_matrix(N_FFT // 2 + 1, N_MEL))

    def forward(self, wav):
        spec = torch.stft(wav, N_FFT, HOP, window=self.window, return_complex=True)  # RAISES: 1
        power = spec.abs() ** 2
        return torch.log(self.mel @ power + 1e-5).transpose(1, 2)


class Spotter(nn.Module):
    def __init__(self, n_words):
        super().__init__()
        self.front = LogMel()
        self.norm = nn.LayerNorm(N_MEL)
        self.rnn = nn.GRU(N_MEL, 24, batch_first=True)
        self.head = nn.Linear(24, n_words)

    def forward(self, wav, n_samples):
        feats = self.norm(self.front(wav))
        frames = n_samples // HOP + 1  # BUG: any culprit=frames
        # FIX: frames = (n_samples // HOP + 1).cpu()
        packed = pack_padded_sequence(feats, frames, batch_first=True, enforce_sorted=False)  # RAISES: 2 # ALSO: 2
        _, h = self.rnn(packed)
        return self.head(h[-1])


def synth_clip(word, g):
    n = int(torch.randint(700, 1100, (1,), generator=g))
    t = torch.arange(n) / RATE
    base = 180.0 * (word + 1)
    wave = torch.sin(2 * math.pi * base * t) + 0.4 * torch.sin(4 * math.pi * base * t)
    return wave + 0.3 * torch.randn(n, generator=g)


def batches(count, size, seed):
    g = torch.Generator().manual_seed(seed)
    for _ in range(count):
        words = torch.randint(4, (size,), generator=g)
        clips = [synth_clip(int(w), g) for w in words]
        lengths = torch.tensor([len(c) for c in clips])
        yield pad_sequence(clips, batch_first=True), lengths, words


def main():
    torch.manual_seed(21)
    device = "cuda"
    model = Spotter(4).to(device)
    opt = torch.optim.Adam(model.parameters(), lr=1e-2)
    criterion = nn.CrossEntropyLoss(label_smoothing=0.05)
    for step, (wav, lengths, words) in enumerate(batches(18, 16, seed=4)):
        wav, lengths = wav.to(device), lengths.to(device)  # ALSO: 2
        words = words.long()  # BUG: any culprit=words
        # FIX: words = words.to(device)
        logits = model(wav, lengths)
        loss = criterion(logits, words)  # RAISES: 3
        opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()
        if step % 6 == 5:
            acc = (logits.argmax(-1) == words).float().mean()
            print(step, f"{loss.item():.4f}", f"{acc.item():.3f}")


main()
