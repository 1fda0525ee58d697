"""Linear-chain CRF: forward algorithm for the loss, Viterbi for decoding."""
import torch
import torch.nn as nn


class CRF(nn.Module):
    def __init__(self, tags):
        super().__init__()
        self.tags = tags
        self.trans = nn.Parameter(torch.zeros(tags, tags))
        self.start = nn.Parameter(torch.zeros(tags))
        self.forbidden = [(0, 2)]

    def constrained(self):
        blocked = torch.zeros(self.tags, self.tags, dtype=torch.bool)  # BUG: any culprit=blocked
        # FIX: blocked = torch.zeros(self.tags, self.tags, dtype=torch.bool, device=self.trans.device)
        for a, b in self.forbidden:
            blocked[a, b] = True
        return self.trans.masked_fill(blocked, -1e4)  # RAISES: 1

    def partition(self, emit, mask):
        trans = self.constrained()
        alpha = self.start + emit[:, 0]
        for t in range(1, emit.size(1)):
            nxt = torch.logsumexp(alpha.unsqueeze(2) + trans, dim=1) + emit[:, t]
            alpha = torch.where(mask[:, t, None], nxt, alpha)  # RAISES: 2
        return alpha.logsumexp(1)

    def gold(self, emit, tags, mask):
        b, t = tags.shape
        trans = self.constrained()
        score = self.start[tags[:, 0]] + emit[:, 0].gather(1, tags[:, :1]).squeeze(1)
        for i in range(1, t):
            s = trans[tags[:, i - 1], tags[:, i]] + emit[:, i].gather(1, tags[:, i : i + 1]).squeeze(1)
            score = score + s * mask[:, i]
        return score

    def viterbi(self, emit):
        trans = self.constrained()
        best, back = self.start + emit[0], []
        for e in emit[1:]:
            m, arg = (best.unsqueeze(1) + trans).max(0)
            best = m + e
            back.append(arg)
        path = [best.argmax().item()]
        for arg in reversed(back):
            path.append(arg[path[-1]].item())
        return path[::-1]


class Tagger(nn.Module):
    def __init__(self, vocab=11, dim=8, tags=3):
        super().__init__()
        self.emb = nn.Embedding(vocab, dim)
        self.lin = nn.Linear(dim, tags)
        self.crf = CRF(tags)

    def loss(self, words, tags, lengths):
        emit = self.lin(self.emb(words))
        pos = torch.arange(words.size(1))  # ALSO: 2
        mask = pos[None, :] < lengths[:, None]  # BUG: any culprit=mask
        # FIX: mask = (pos[None, :] < lengths[:, None]).to(words.device)
        return (self.crf.partition(emit, mask) - self.crf.gold(emit, tags, mask)).mean()


def main():
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    torch.manual_seed(10)
    words = torch.arange(20).view(4, 5) % 11
    tags = words % 3
    lengths = torch.tensor([5, 4, 3, 5])
    model = Tagger().to(device)
    opt = torch.optim.Adam(model.parameters(), lr=0.05)
    words, tags = words.to(device), tags.to(device)
    for _ in range(8):
        loss = model.loss(words, tags, lengths)
        opt.zero_grad()
        loss.backward()
        opt.step()
    with torch.no_grad():
        path = model.crf.viterbi(model.lin(model.emb(words[0])))
    print(f"{loss.item():.4f} {path}")


if __name__ == "__main__":
    main()
