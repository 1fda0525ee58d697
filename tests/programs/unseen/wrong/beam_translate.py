"""GRU encoder-decoder that reverses digit strings, decoded with beam search."""
import math

import torch
import torch.nn as nn

PAD, BOS, EOS = 0, 1, 2
DIGITS = 6
VOCAB = DIGITS + 3


class Reverser(nn.Module):
    def __init__(self, dim=32):
        super().__init__()
        self.emb = nn.Embedding(VOCAB, dim, padding_idx=PAD)
        self.encoder = nn.GRU(dim, dim, batch_first=True)
        self.cell = nn.GRUCell(dim, dim)
        self.out = nn.Linear(2 * dim, VOCAB)

    def encode(self, src):
        mem, h = self.encoder(self.emb(src))
        return mem, h[-1], src == PAD

    def step(self, tok, h, mem, hole):
        h = self.cell(self.emb(tok), h)
        score = torch.einsum("bd,btd->bt", h, mem).masked_fill(hole, -math.inf)
        ctx = torch.einsum("bt,btd->bd", score.softmax(-1), mem)
        return self.out(torch.cat([h, ctx], -1)).log_softmax(-1), h


def make_pairs(n, device):
    rows_in, rows_out = [], []
    for _ in range(n):
        k = int(torch.randint(2, 5, ()))
        digits = (torch.randint(DIGITS, (k,)) + 3).tolist()
        rows_in.append(digits + [PAD] * (4 - k))
        rows_out.append(digits[::-1] + [EOS] + [PAD] * (4 - k))
    return torch.tensor(rows_in, device=device), torch.tensor(rows_out)  # BUG: any
    # FIX: return torch.tensor(rows_in, device=device), torch.tensor(rows_out, device=device)


def teacher_forced_loss(model, src, tgt):
    mem, h, hole = model.encode(src)
    tok = torch.full((len(src),), BOS, device=src.device)
    loss = 0.0
    for want in tgt.T:
        logp, h = model.step(tok, h, mem, hole)
        loss = loss + nn.functional.nll_loss(logp, want, ignore_index=PAD, reduction="sum")  # RAISES: 1
        tok = want
    return loss / (tgt != PAD).sum()


@torch.no_grad()
def beam_search(model, src, width=3, limit=5, alpha=0.6):
    mem, h, hole = model.encode(src.expand(width, -1))
    device = src.device
    scores = torch.full((width,), -math.inf)  # BUG: any culprit=scores
    # FIX: scores = torch.full((width,), -math.inf, device=device)
    scores[0] = 0.0
    tok = torch.full((width,), BOS, device=device)
    paths = torch.empty(width, 0, dtype=torch.long)  # BUG: any culprit=paths
    # FIX: paths = torch.empty(width, 0, dtype=torch.long, device=device)
    done = []
    for t in range(limit):
        logp, h = model.step(tok, h, mem, hole)
        total = (scores[:, None] + logp).flatten()  # RAISES: 2
        scores, flat = total.topk(width)
        parent, tok = flat // VOCAB, flat % VOCAB
        paths = torch.cat([paths[parent], tok[:, None]], 1)  # RAISES: 3
        h = h[parent]
        ended = tok == EOS
        for i in ended.nonzero().flatten().tolist():
            done.append((scores[i].item() / (t + 1) ** alpha, paths[i].tolist()))
        scores = scores.masked_fill(ended, -1e9)
    return max(done) if done else (scores[0].item(), paths[0].tolist())


def main():
    torch.manual_seed(14)
    device = torch.device("cuda")
    model = Reverser().to(device)
    opt = torch.optim.Adam(model.parameters(), lr=8e-3)
    for it in range(60):
        loss = teacher_forced_loss(model, *make_pairs(32, device))
        opt.zero_grad()
        loss.backward()
        opt.step()
        if it % 15 == 14:
            print(it + 1, round(loss.item(), 4))
    score, path = beam_search(model, torch.tensor([[3, 5, 8, 4]], device=device))
    print(round(score, 3), path)


main()
