# Seq2seq transformer pieces written by hand, masks the old way
import argparse
import torch
import torch.nn as nn
import torch.nn.functional as F

PAD, BOS = 0, 1


def parse():
    p = argparse.ArgumentParser()
    p.add_argument("--d_model", type=int, default=16)
    p.add_argument("--heads", type=int, default=2)
    p.add_argument("--epochs", type=int, default=3)
    p.add_argument("--no-cuda", action="store_true")
    args = p.parse_args()
    args.device = "cuda" if torch.cuda.is_available() and not args.no_cuda else "cpu"
    return args


def nopeak(size):
    np_mask = torch.triu(torch.ones(1, size, size), diagonal=1)
    return np_mask == 0


def create_masks(src, trg, device):
    src_mask = (src != PAD).unsqueeze(-2)
    trg_mask = (trg != PAD).unsqueeze(-2)
    size = trg.size(1)
    np_mask = nopeak(size)  # BUG: any culprit=np_mask
    # FIX: np_mask = nopeak(size).to(device)
    trg_mask = trg_mask & np_mask  # RAISES: 1
    return src_mask, trg_mask


class Attention(nn.Module):
    def __init__(self, d, heads):
        super().__init__()
        self.h, self.dk = heads, d // heads
        self.q, self.k, self.v, self.out = (nn.Linear(d, d) for _ in range(4))

    def forward(self, q, k, v, mask=None):
        b = q.size(0)
        q = self.q(q).view(b, -1, self.h, self.dk).transpose(1, 2)
        k = self.k(k).view(b, -1, self.h, self.dk).transpose(1, 2)
        v = self.v(v).view(b, -1, self.h, self.dk).transpose(1, 2)
        scores = q @ k.transpose(-2, -1) / self.dk ** 0.5
        if mask is not None:
            scores = scores.masked_fill(mask.unsqueeze(1) == 0, -1e9)
        ctx = F.softmax(scores, dim=-1) @ v
        return self.out(ctx.transpose(1, 2).reshape(b, -1, self.h * self.dk))


class Translator(nn.Module):
    def __init__(self, vocab, d, heads):
        super().__init__()
        self.emb = nn.Embedding(vocab, d)
        self.pos = nn.Embedding(32, d)
        self.self_attn = Attention(d, heads)
        self.cross = Attention(d, heads)
        self.proj = nn.Linear(d, vocab)

    def embed(self, ids):
        steps = torch.arange(ids.size(1))  # BUG: any culprit=steps
        # FIX: steps = torch.arange(ids.size(1), device=ids.device)
        return self.emb(ids) + self.pos(steps)  # RAISES: 2

    def forward(self, src, trg, src_mask, trg_mask):
        memory, y = self.embed(src), self.embed(trg)
        y = y + self.self_attn(y, y, y, trg_mask)
        y = y + self.cross(y, memory, memory, src_mask)
        return self.proj(y)


def main():
    args = parse()
    torch.manual_seed(0)
    model = Translator(20, args.d_model, args.heads).to(args.device)
    optim = torch.optim.Adam(model.parameters(), lr=5e-3)
    src = torch.tensor([[3, 4, 5, 0], [6, 7, 0, 0], [8, 9, 10, 11]])
    trg = torch.tensor([[1, 5, 4, 3], [1, 7, 6, 0], [1, 11, 10, 9]])
    for _ in range(args.epochs):
        src, trg = src.to(args.device), trg.to(args.device)
        trg_in, gold = trg[:, :-1], trg[:, 1:]
        src_mask, trg_mask = create_masks(src, trg_in, args.device)
        logits = model(src, trg_in, src_mask, trg_mask)
        loss = F.cross_entropy(logits.transpose(1, 2), gold, ignore_index=PAD)
        optim.zero_grad()
        loss.backward()
        optim.step()
    print("loss %.4f" % loss.item())


if __name__ == "__main__":
    main()
