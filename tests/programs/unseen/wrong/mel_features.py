"""Speech commands, kind of: log-mel features on the fly, SpecAugment, a tiny classifier."""
import math
import torch


class Frontend(torch.nn.Module):
    def __init__(self, n_fft=64, hop=32, mels=10, rate=1000):
        super().__init__()
        self.n_fft, self.hop = n_fft, hop
        self.window = torch.hann_window(n_fft)  # BUG: any culprit=self.window
        # FIX: self.register_buffer("window", torch.hann_window(n_fft))
        self.register_buffer("bank", self.filters(n_fft // 2 + 1, mels, rate), persistent=False)

    @staticmethod
    def filters(bins, mels, rate):
        def mel(f):
            return 1127 * math.log(1 + f / 700)

        points = torch.linspace(0, mel(rate / 2), mels + 2)
        hz = 700 * (torch.exp(points / 1127) - 1)
        freq = torch.linspace(0, rate / 2, bins)
        up = (freq[:, None] - hz[None, :-2]) / (hz[1:-1] - hz[:-2])
        down = (hz[None, 2:] - freq[:, None]) / (hz[2:] - hz[1:-1])
        return torch.minimum(up, down).clamp(min=0)

    def forward(self, wave):
        spec = torch.stft(wave, self.n_fft, self.hop, window=self.window, return_complex=True)  # RAISES: 1
        return torch.log(torch.einsum("bft,fm->bmt", spec.abs().square(), self.bank) + 1e-6)


class Normalize(torch.nn.Module):
    """Per-band statistics, estimated once over some waves and then fixed."""

    def __init__(self, bands):
        super().__init__()
        self.register_buffer("mean", torch.zeros(bands, 1))
        self.register_buffer("std", torch.ones(bands, 1))

    def fit(self, features):
        stacked = torch.cat(features, -1)
        self.mean = stacked.mean((0, 2), keepdim=False).unsqueeze(1).cpu()  # BUG: any culprit=self.mean
        # FIX: self.mean = stacked.mean((0, 2), keepdim=False).unsqueeze(1)
        self.std = stacked.std((0, 2), keepdim=False).unsqueeze(1)
        return self

    def forward(self, x):
        return (x - self.mean) / self.std  # RAISES: 2


def spec_augment(x, step):
    """Bands are muted; which ones depends on the step only."""
    band = (step * 3) % x.shape[1]
    keep = (torch.arange(x.shape[1]) != band).float()  # BUG: any culprit=keep
    # FIX: keep = (torch.arange(x.shape[1], device=x.device) != band).float()
    return x * keep.view(1, -1, 1)  # RAISES: 3


class Classifier(torch.nn.Sequential):
    def __init__(self, bands, classes):
        super().__init__(
            torch.nn.Conv1d(bands, 12, 3), torch.nn.ReLU(), torch.nn.AdaptiveAvgPool1d(1),
            torch.nn.Flatten(), torch.nn.Linear(12, classes),
        )  # fmt: skip


def tones(n, length=512, rate=1000):
    t = torch.arange(length) / rate
    hz = torch.tensor([60.0, 140.0, 300.0])
    label = torch.arange(n) % 3
    phase = torch.arange(n) * 0.4
    return torch.sin(2 * math.pi * hz[label, None] * t + phase[:, None]), label


torch.manual_seed(5)
device = "cuda:0" if torch.cuda.is_available() else "cpu"
waves, labels = tones(18)
frontend, norm = Frontend().to(device), Normalize(10).to(device)
net = Classifier(10, 3).to(device)
norm.fit([frontend(w.to(device)) for w in waves.split(6)])
opt = torch.optim.Adam(net.parameters(), lr=0.02)
for step in range(9):
    w, y = waves[step % 3 :: 3].to(device), labels[step % 3 :: 3].to(device)
    x = spec_augment(norm(frontend(w)), step)
    loss = torch.nn.functional.cross_entropy(net(x), y)
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(f"{step} {loss.item():.4f}")
net.eval()
with torch.no_grad():
    guess = net(norm(frontend(waves.to(device)))).argmax(1)
hits = guess == labels  # BUG: any culprit=labels # RAISES: 4
# FIX: hits = guess.cpu() == labels
print("accuracy %.3f" % hits.float().mean().item())
