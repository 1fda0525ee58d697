"""Log-mel style features and a small CRNN classifier for audio clips."""
import logging
from types import SimpleNamespace

import torch
import torch.nn as nn

log = logging.getLogger("speech")

cfg = SimpleNamespace(
    n_fft=32,
    hop=16,
    bands=6,
    hidden=8,
    classes=3,
    device="cuda" if torch.cuda.is_available() else "cpu",
)


def triangular_filters(n_freqs, bands):
    centers = torch.linspace(0, n_freqs - 1, bands + 2)
    bins = torch.arange(n_freqs, dtype=torch.float32)
    rows = []
    for lo, mid, hi in zip(centers[:-2], centers[1:-1], centers[2:]):
        up = (bins - lo) / (mid - lo)
        down = (hi - bins) / (hi - mid)
        rows.append(torch.minimum(up, down).clamp(min=0))
    return torch.stack(rows)


class Frontend(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.cfg = cfg
        self.register_buffer("fbank", triangular_filters(cfg.n_fft // 2 + 1, cfg.bands))

    def forward(self, wav):
        window = torch.hann_window(self.cfg.n_fft)  # BUG: any culprit=window
        # FIX: window = torch.hann_window(self.cfg.n_fft, device=wav.device)
        spec = torch.stft(wav, self.cfg.n_fft, self.cfg.hop, window=window, return_complex=True)  # RAISES: 1
        power = spec.abs() ** 2
        return (self.fbank @ power + 1e-5).log()


class CRNN(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.front = Frontend(cfg)
        self.conv = nn.Conv1d(cfg.bands, cfg.hidden, 3, padding=1)
        self.rnn = nn.GRU(cfg.hidden, cfg.hidden, batch_first=True)
        self.fc = nn.Linear(cfg.hidden, cfg.classes)

    def forward(self, wav):
        z = self.conv(self.front(wav)).relu().transpose(1, 2)
        h0 = torch.zeros(1, z.size(0), z.size(2))  # BUG: any culprit=h0
        # FIX: h0 = torch.zeros(1, z.size(0), z.size(2), device=z.device)
        out, _ = self.rnn(z, h0)  # RAISES: 2
        return self.fc(out[:, -1])


def clips():
    t = torch.arange(160) / 160.0
    for i in range(6):
        freq = torch.tensor([5.0, 11.0, 23.0])
        yield torch.sin(2 * torch.pi * freq[:, None] * t + i), torch.tensor([0, 1, 2])


def main():
    torch.manual_seed(4)
    model = CRNN(cfg).to(cfg.device)
    opt = torch.optim.Adam(model.parameters(), lr=1e-2)
    for wav, label in clips():
        wav, label = wav.to(cfg.device), label.to(cfg.device)
        loss = nn.functional.cross_entropy(model(wav), label)
        opt.zero_grad()
        loss.backward()
        opt.step()
    feats = model.front(wav)
    log.info("feature shape %s", tuple(feats.shape))
    table = feats.numpy()  # BUG: any culprit=feats # RAISES: 3
    # FIX: table = feats.cpu().numpy()
    print(table.shape, round(float(table.mean()), 3), round(loss.item(), 4))


if __name__ == "__main__":
    main()
