import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pack_sequence, pad_packed_sequence, pad_sequence

torch.manual_seed(3)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(10, 6, padding_idx=0)
        self.gru = nn.GRU(6, 5, batch_first=True)

    def forward(self, ids, lengths):
        # lengths have to be on the host whatever the device of ids
        packed = pack_padded_sequence(self.emb(ids), lengths, batch_first=True, enforce_sorted=False)
        out, h = self.gru(packed)
        padded, back = pad_packed_sequence(out, batch_first=True)
        valid = torch.arange(padded.size(1))[None] < back[:, None]
        mean = (padded * valid.to(padded.device).unsqueeze(-1)).sum(1) / back.to(padded.device).unsqueeze(1)
        last = padded[torch.arange(len(back)), back - 1]
        return mean, last, h[0]


seqs = [torch.arange(1, n + 1) for n in (4, 2, 5)]
lengths = torch.tensor([len(s) for s in seqs])
ids = pad_sequence(seqs, batch_first=True).to(device)
enc = Encoder().to(device)
with torch.no_grad():
    mean, last, h = enc(ids, lengths)
    again = enc.gru(pack_sequence([enc.emb(s.to(device)) for s in seqs], enforce_sorted=False))[1][0]
print(tuple(mean.shape), torch.allclose(last, h), torch.allclose(h, again, atol=1e-6))
print("%.4f" % mean.sum().item())
