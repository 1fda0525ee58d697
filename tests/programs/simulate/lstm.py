# compare: close
# devices: 1
"""A sequence tagger: embedding, packed sequences of different length, bidirectional nn.LSTM."""

import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence, pad_sequence


class Tagger(nn.Module):
    def __init__(self, vocabulary, tags, width=24):
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, width, padding_idx=0)
        self.lstm = nn.LSTM(width, width, num_layers=2, bidirectional=True, batch_first=True)
        self.head = nn.Linear(2 * width, tags)

    def forward(self, tokens, lengths):
        packed = pack_padded_sequence(self.embedding(tokens), lengths, batch_first=True, enforce_sorted=False)
        hidden, (h, c) = self.lstm(packed)
        hidden, _ = pad_packed_sequence(hidden, batch_first=True)
        return self.head(hidden), h, c


torch.manual_seed(3)
device = torch.device("cuda:0" if torch.cuda.is_available() else "cpu")
lengths = torch.randint(3, 12, (16,))
sentences = [torch.randint(1, 50, (int(n),)) for n in lengths]
tokens = pad_sequence(sentences, batch_first=True).to(device)
tags = pad_sequence([s % 5 for s in sentences], batch_first=True, padding_value=-100).to(device)

model = Tagger(50, 5).to(device)
model.lstm.flatten_parameters()
optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
criterion = nn.CrossEntropyLoss(ignore_index=-100)

for epoch in range(8):
    logits, h, c = model(tokens, lengths)  # lengths stay on the CPU, as pack_padded_sequence wants
    loss = criterion(logits.reshape(-1, 5), tags.reshape(-1))
    optimizer.zero_grad()
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    print(f"epoch {epoch} loss {loss.item():.5f}")

assert h.device.type == device.type and h.shape == (4, 16, 24)
assert model.embedding.weight.grad[0].abs().sum().item() == 0
print(f"h {h.abs().mean().item():.5f} c {c.abs().mean().item():.5f}")

# One step at a time, as a decoder does.
cell = nn.LSTMCell(8, 8).to(device)
x = torch.ones(2, 8, device=device)
state = (torch.zeros(2, 8, device=device), torch.zeros(2, 8, device=device))
for _ in range(3):
    state = cell(x, state)
(state[0].sum() + state[1].sum()).backward()
print(f"cell {state[0].sum().item():.5f} grad {cell.weight_hh.grad.abs().sum().item():.5f}")
projected, _ = nn.LSTM(8, 8, proj_size=4).to(device)(torch.ones(5, 2, 8, device=device))
print("projected", tuple(projected.shape))
