"""BiGRU tagger with a linear-chain CRF: forward algorithm, gold score and Viterbi by hand."""
import torch
import torch.nn as nn


class CRF(nn.Module):
    def __init__(self, n_tags):
        super().__init__()
        self.n_tags = n_tags
        self.trans = nn.Parameter(0.1 * torch.randn(n_tags + 1, n_tags))

    def log_z(self, emit, mask):
        alpha = emit[:, 0] + self.trans[-1]
        for t in range(1, emit.shape[1]):
            step = (alpha.unsqueeze(2) + self.trans[:-1]).logsumexp(1) + emit[:, t]
            alpha = torch.where(mask[:, t:t + 1], step, alpha)  # RAISES: 2
        return alpha.logsumexp(1)

    def gold(self, emit, tags, mask):
        begin = torch.full((len(tags), 1), self.n_tags)  # BUG: any culprit=begin
        # FIX: begin = torch.full((len(tags), 1), self.n_tags, device=tags.device)
        path = torch.cat([begin, tags], dim=1)  # RAISES: 1
        hop = self.trans[path[:, :-1], path[:, 1:]]
        local = emit.gather(2, tags.unsqueeze(2)).squeeze(2)
        return ((hop + local) * mask).sum(1)

    @torch.no_grad()
    def viterbi(self, emit):
        B, T, K = emit.shape
        back = torch.zeros(T, B, K, dtype=torch.long)  # BUG 3: any culprit=back
        # FIX: back = torch.zeros(T, B, K, dtype=torch.long, device=emit.device)
        score = emit[:, 0] + self.trans[-1]
        for t in range(1, T):
            best, back[t] = (score.unsqueeze(2) + self.trans[:-1]).max(1)
            score = best + emit[:, t]
        tag = score.argmax(1, keepdim=True)
        path = [tag]
        for t in range(T - 1, 0, -1):
            tag = back[t].gather(1, tag)  # RAISES: 3
            path.append(tag)
        return torch.cat(path[::-1], 1)


class Tagger(nn.Module):
    def __init__(self, n_words, n_tags, width=16):
        super().__init__()
        self.emb = nn.Embedding(n_words, width, padding_idx=0)
        self.gru = nn.GRU(width, width, batch_first=True, bidirectional=True)
        self.emit = nn.Linear(2 * width, n_tags)
        self.crf = CRF(n_tags)

    def forward(self, words):
        return self.emit(self.gru(self.emb(words))[0])

    def loss(self, words, tags, mask):
        e = self(words)
        return (self.crf.log_z(e, mask) - self.crf.gold(e, tags, mask)).mean()


def toy_corpus(n, gen):
    """A word opens a span (tag 1) if it is 2, the next one is inside (tag 2); all else is outside."""
    for _ in range(n):
        m = int(torch.randint(4, 10, (), generator=gen))
        w = torch.randint(1, 9, (m,), generator=gen)
        t = (w == 2).long()
        t[1:][(w[:-1] == 2) & (w[1:] != 2)] = 2
        yield w, t


def pad(pairs):
    size = torch.tensor([len(w) for w, _ in pairs])
    words = torch.zeros(len(pairs), int(size.max()), dtype=torch.long)
    tags = torch.zeros_like(words)
    for i, (w, t) in enumerate(pairs):
        words[i, :len(w)], tags[i, :len(t)] = w, t
    return words, tags, size


def to_mask(size, width):
    return torch.arange(width).unsqueeze(0) < size.unsqueeze(1)


def main():
    torch.manual_seed(19)
    device = torch.device("cuda")
    pairs = list(toy_corpus(48, torch.Generator().manual_seed(1)))
    model = Tagger(9, 3).to(device)
    opt = torch.optim.Adam(model.parameters(), lr=2e-2)
    for epoch in range(6):
        total = 0.0
        for i in range(0, len(pairs), 16):
            words, tags, size = pad(pairs[i:i + 16])
            mask = to_mask(size, words.shape[1])  # BUG 2: any culprit=mask
            # FIX: mask = to_mask(size, words.shape[1]).to(device)
            loss = model.loss(words.to(device), tags.to(device), mask)  # ALSO: 2
            opt.zero_grad()
            loss.backward()
            opt.step()
            total += loss.item()
        print(f"epoch {epoch} nll {total / 3:.4f}")
    words, tags, size = pad(pairs[:16])
    path = model.crf.viterbi(model(words.to(device))).cpu()
    right = ((path == tags) & to_mask(size, words.shape[1])).sum()
    print(f"viterbi accuracy {right.item() / size.sum().item():.3f}")


main()
