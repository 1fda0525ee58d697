"""Encoder-decoder translation with a causal mask and greedy decoding, in functions."""
import math

import torch
from torch import Tensor, nn

PAD, BOS, EOS = 0, 1, 2
VOCAB, DIM = 20, 16


def generate_square_subsequent_mask(size: int) -> Tensor:
    mask = (torch.triu(torch.ones((size, size))) == 1).transpose(0, 1)
    return mask.float().masked_fill(mask == 0, float("-inf")).masked_fill(mask == 1, 0.0)


class Seq2Seq(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(VOCAB, DIM, padding_idx=PAD)
        self.transformer = nn.Transformer(DIM, 2, 1, 1, 32, dropout=0.0, batch_first=True)
        self.out = nn.Linear(DIM, VOCAB)

    def encode(self, src):
        return self.transformer.encoder(self.embed(src) * math.sqrt(DIM))

    def decode(self, tgt, memory, tgt_mask):
        return self.transformer.decoder(self.embed(tgt) * math.sqrt(DIM), memory, tgt_mask=tgt_mask)  # RAISES: 1

    def forward(self, src, tgt, tgt_mask):
        return self.out(self.decode(tgt, self.encode(src), tgt_mask))


def greedy_decode(model, src, max_len):
    memory = model.encode(src)
    ys = torch.ones(src.size(0), 1).fill_(BOS).type(torch.long)  # BUG: default-device culprit=ys|tgt
    # FIX: ys = torch.ones(src.size(0), 1, device=DEVICE).fill_(BOS).type(torch.long)
    for _ in range(max_len):
        out = model.decode(ys, memory, generate_square_subsequent_mask(ys.size(1)))
        nxt = model.out(out[:, -1]).argmax(-1, keepdim=True)
        ys = torch.cat([ys, nxt], dim=1)
    return ys


DEVICE = torch.device("cuda")
torch.manual_seed(0)
model = Seq2Seq().to(DEVICE)
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
loss_fn = nn.CrossEntropyLoss(ignore_index=PAD)
pairs = [(torch.randint(3, VOCAB, (4, 7)), torch.randint(3, VOCAB, (4, 6))) for _ in range(2)]
for src, tgt in pairs:
    src, tgt = src.to(DEVICE), tgt.to(DEVICE)
    tgt_input = tgt[:, :-1]
    logits = model(src, tgt_input, generate_square_subsequent_mask(tgt_input.size(1)))
    loss = loss_fn(logits.reshape(-1, VOCAB), tgt[:, 1:].reshape(-1))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
with torch.no_grad():
    print(greedy_decode(model.eval(), src, 3).shape)
