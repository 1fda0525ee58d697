"""CTC: lengths may stay on the host; the window follows the waveform."""
import torch
from torch import nn


class Recogniser(nn.Module):
    def __init__(self, n_fft=16, vocab=5):
        super().__init__()
        self.n_fft = n_fft
        self.register_buffer("window", torch.hann_window(n_fft))
        self.rnn = nn.LSTM(n_fft // 2 + 1, 12, batch_first=True)
        self.out = nn.Linear(12, vocab)

    def forward(self, wav):
        spec = torch.stft(wav, self.n_fft, self.n_fft // 2, window=self.window, return_complex=True).abs()
        h, _ = self.rnn(spec.transpose(1, 2))
        return self.out(h).log_softmax(-1)


torch.manual_seed(30)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
net = Recogniser().to(device)
ctc = nn.CTCLoss(zero_infinity=True)
opt = torch.optim.Adam(net.parameters(), lr=1e-2)
wav = torch.sin(torch.arange(2 * 160.0) * 0.3).view(2, 160).to(device)
targets = torch.tensor([[1, 2, 3], [4, 1, 0]])
target_lengths = torch.tensor([3, 2])
for _ in range(4):
    logp = net(wav).transpose(0, 1)
    frames = torch.full((2,), logp.size(0), dtype=torch.long)
    loss = ctc(logp, targets.to(device), frames, target_lengths)
    opt.zero_grad()
    loss.backward()
    opt.step()
best = net(wav).argmax(-1).cpu().numpy()
print("%.4f" % loss.item(), best.shape)
