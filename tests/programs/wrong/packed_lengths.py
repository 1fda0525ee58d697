import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence, pad_sequence


class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(15, 6, padding_idx=0)
        self.rnn = nn.GRU(6, 8, batch_first=True, bidirectional=True)
        self.out = nn.Linear(16, 4)

    def forward(self, tokens, lengths):
        packed = pack_padded_sequence(self.embed(tokens), lengths, batch_first=True, enforce_sorted=False)  # BUG: lengths-must-be-cpu culprit=lengths  # RAISES: 1
        # FIX: packed = pack_padded_sequence(self.embed(tokens), lengths.cpu(), batch_first=True, enforce_sorted=False)
        states, _ = pad_packed_sequence(self.rnn(packed)[0], batch_first=True)
        return self.out(states)


def batches():
    for seed in range(2):
        torch.manual_seed(seed)
        sentences = [torch.randint(1, 15, (n,)) for n in (5, 3, 6)]
        tags = [s % 4 for s in sentences]
        yield pad_sequence(sentences, True), pad_sequence(tags, True, -100), torch.tensor([len(s) for s in sentences])


torch.manual_seed(0)
device = torch.device("cuda")
tagger = Tagger().to(device)
optimizer = torch.optim.Adam(tagger.parameters())
for batch in batches():
    tokens, tags, lengths = (t.to(device) for t in batch)  # ALSO: 1
    scores = tagger(tokens, lengths)  # ALSO: 1
    loss = nn.functional.cross_entropy(scores.transpose(1, 2), tags, ignore_index=-100)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print("%.4f" % loss)
