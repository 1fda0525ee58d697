"""Attention seq2seq which reverses digit strings; packed encoder, beam search decoder."""
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

PAD, BOS, EOS, N = 0, 1, 2, 9


def pairs(n, gen):
    out = []
    for _ in range(n):
        s = torch.randint(3, N, (int(torch.randint(2, 6, (), generator=gen)),), generator=gen)
        out.append((s, torch.cat([s.flip(0), torch.tensor([EOS])])))
    return out


def collate(batch):
    src = nn.utils.rnn.pad_sequence([s for s, _ in batch], batch_first=True)
    tgt = nn.utils.rnn.pad_sequence([t for _, t in batch], batch_first=True)
    return src, torch.tensor([len(s) for s, _ in batch]), tgt


class Encoder(nn.Module):
    def __init__(self, emb, width):
        super().__init__()
        self.emb, self.rnn = emb, nn.GRU(emb.embedding_dim, width, batch_first=True)

    def forward(self, src, size):
        packed = pack_padded_sequence(self.emb(src), size, batch_first=True, enforce_sorted=False)  # BUG: any culprit=size  # RAISES: 1
        # FIX: packed = pack_padded_sequence(self.emb(src), size.cpu(), batch_first=True, enforce_sorted=False)
        out, h = self.rnn(packed)
        return pad_packed_sequence(out, batch_first=True, total_length=src.shape[1])[0], h


class Decoder(nn.Module):
    def __init__(self, emb, width):
        super().__init__()
        self.emb, self.rnn = emb, nn.GRU(emb.embedding_dim, width, batch_first=True)
        self.out = nn.Linear(2 * width, N)

    def forward(self, tok, h, memory, mask):
        o, h = self.rnn(self.emb(tok), h)  # RAISES: 4
        att = (o @ memory.transpose(1, 2)).masked_fill(~mask.unsqueeze(1), -1e9)
        return self.out(torch.cat([o, att.softmax(-1) @ memory], -1)), h


class Seq2Seq(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        emb = nn.Embedding(N, 16, padding_idx=PAD)
        self.enc, self.dec = Encoder(emb, width), Decoder(emb, width)

    def memory(self, src, size):
        mem, h = self.enc(src, size)
        mask = torch.arange(src.shape[1]) < size.unsqueeze(1)  # BUG: any  # RAISES: 2
        # FIX: mask = torch.arange(src.shape[1], device=size.device) < size.unsqueeze(1)
        return mem, h, mask

    def forward(self, src, size, tgt):
        mem, h, mask = self.memory(src, size)
        shifted = torch.cat([torch.full_like(tgt[:, :1], BOS), tgt[:, :-1]], 1)
        return self.dec(shifted, h, mem, mask)[0]


@torch.no_grad()
def beam(model, src, size, k=3, limit=7):
    """One sentence at a time; src is (1, T)."""
    mem, h, mask = model.memory(src, size)
    mem, h, mask = mem.expand(k, -1, -1), h.expand(-1, k, -1).contiguous(), mask.expand(k, -1)
    score = torch.tensor([0.0] + [-1e9] * (k - 1))  # BUG: any culprit=score
    # FIX: score = torch.tensor([0.0] + [-1e9] * (k - 1), device=mem.device)
    seqs, ended = torch.full((k, 1), BOS, device=mem.device), torch.zeros(k, dtype=torch.bool, device=mem.device)
    for _ in range(limit):
        logits, h = model.dec(seqs[:, -1:], h, mem, mask)
        lp = logits[:, -1].log_softmax(-1)
        lp = torch.where(ended.unsqueeze(1), torch.full_like(lp, -1e9).index_fill(1, src.new_tensor([PAD]), 0.0), lp)
        score, flat = (score.unsqueeze(1) + lp).flatten().topk(k)  # RAISES: 3
        parent, tok = flat // N, flat % N
        seqs, h = torch.cat([seqs[parent], tok.unsqueeze(1)], 1), h[:, parent]
        ended = ended[parent] | (tok == EOS)
        if ended.all():
            break
    return [t for t in seqs[0, 1:].tolist() if t > EOS]


def greedy_first(model, src, size):
    mem, h, mask = model.memory(src, size)
    start = torch.tensor([[BOS]] * len(src))  # BUG: any culprit=start
    # FIX: start = torch.tensor([[BOS]] * len(src), device=src.device)
    return model.dec(start, h, mem, mask)[0].argmax(-1).squeeze(1)


def main():
    torch.manual_seed(55)
    device = torch.device("cuda")
    data = pairs(96, torch.Generator().manual_seed(55))
    model = Seq2Seq().to(device)
    opt = torch.optim.Adam(model.parameters(), lr=1e-2)
    for epoch in range(6):
        for i in range(0, len(data), 32):
            src, size, tgt = (t.to(device) for t in collate(data[i:i + 32]))
            loss = F.cross_entropy(model(src, size, tgt).flatten(0, 1), tgt.flatten(), ignore_index=PAD)
            opt.zero_grad()
            loss.backward()
            opt.step()
        print(f"epoch {epoch} loss {loss.item():.4f}")
    src, size, tgt = (t.to(device) for t in collate(data[:16]))
    print("first right", (greedy_first(model, src, size) == tgt[:, 0]).float().mean().item())
    found = [beam(model, src[i:i + 1, :n], size[i:i + 1]) for i, n in enumerate(size.tolist())]
    hits = sum(f == s.flip(0).tolist() for f, (s, _) in zip(found, data))
    print("beam exact", hits / len(found))


main()
