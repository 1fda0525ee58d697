"""Speech recognition: spectrogram masking, packed frames, CTC."""
import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence, pad_sequence
from torch.utils.data import DataLoader


class SpecAugment:
    def __init__(self, width, p=0.5):
        self.width = width
        self.keep = torch.ones(8)  # BUG: default-device|plain-attribute culprit=augment.keep|model.augment.keep
        # FIX: self.keep = torch.ones(8, device="cuda")
        self.keep[2:4] = p

    def __call__(self, x):
        x = x.clone()
        x[:, : self.width] = 0
        return x * self.keep  # RAISES: 1


class Recognizer(nn.Module):
    def __init__(self, augment):
        super().__init__()
        self.augment = augment
        self.rnn = nn.LSTM(8, 12, batch_first=True, bidirectional=True)
        self.out = nn.Linear(24, 6)

    def forward(self, frames, lengths):
        packed = pack_padded_sequence(self.augment(frames), lengths, batch_first=True, enforce_sorted=False)  # BUG: lengths-must-be-cpu culprit=lengths  # RAISES: 2
        # FIX: packed = pack_padded_sequence(self.augment(frames), lengths.cpu(), batch_first=True, enforce_sorted=False)
        hidden, _ = pad_packed_sequence(self.rnn(packed)[0], batch_first=True)
        return self.out(hidden).log_softmax(-1)


def collate(samples):
    frames, texts = zip(*samples)
    lengths = torch.tensor([len(f) for f in frames])
    return pad_sequence(frames, batch_first=True), lengths, torch.cat(texts), torch.tensor([len(t) for t in texts])


torch.manual_seed(0)
data = [(torch.randn(9 + i, 8), torch.randint(1, 6, (3,))) for i in range(6)]
model = Recognizer(SpecAugment(2)).cuda()
ctc = nn.CTCLoss(zero_infinity=True)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for batch in DataLoader(data, batch_size=3, collate_fn=collate):
    frames, lengths, texts, text_lengths = [item.cuda() for item in batch]
    log_probs = model(frames, lengths).transpose(0, 1)
    loss = ctc(log_probs, texts, lengths, text_lengths)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(loss.item() > 0)
