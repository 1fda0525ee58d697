"""word2vec, skip-gram with negative sampling from a unigram table."""
import collections
import torch
import torch.nn as nn
import torch.nn.functional as F

CORPUS = ("a cat sat on a mat . a dog sat on a rug . the cat saw the dog . "
          "the dog saw a cat on the mat . a rug is not a mat .").split()


class Vocab:
    def __init__(self, words):
        freq = collections.Counter(words)
        self.itos = [w for w, _ in sorted(freq.items(), key=lambda p: (-p[1], p[0]))]
        self.stoi = {w: i for i, w in enumerate(self.itos)}
        self.counts = torch.tensor([freq[w] for w in self.itos], dtype=torch.float)

    def __len__(self):
        return len(self.itos)

    def neighbours(self, vectors, word, k=3):
        v = vectors[self.stoi[word]]
        sims = F.cosine_similarity(vectors, v.unsqueeze(0))
        rank = (sims * self.counts.log1p()).argsort(descending=True)  # BUG: any culprit=self.counts # RAISES: 1
        # FIX: rank = (sims * self.counts.to(sims.device).log1p()).argsort(descending=True)
        return [self.itos[i] for i in rank.tolist() if self.itos[i] != word][:k]


class SkipGram(nn.Module):
    def __init__(self, vocab, dim):
        super().__init__()
        self.center = nn.Embedding(len(vocab), dim)
        self.context = nn.Embedding(len(vocab), dim)
        nn.init.zeros_(self.context.weight)

    def forward(self, c, pos, neg):
        v = self.center(c)
        good = F.logsigmoid((v * self.context(pos)).sum(-1))
        bad = F.logsigmoid(-torch.einsum("bd,bnd->bn", v, self.context(neg))).sum(-1)  # RAISES: 2
        return -(good + bad).mean()


def pairs(ids, window=2):
    for i, c in enumerate(ids):
        for j in range(max(0, i - window), min(len(ids), i + window + 1)):
            if i != j:
                yield c, ids[j]


def table(vocab, size=50):
    p = vocab.counts ** 0.75
    reps = (p / p.sum() * size).round().long().clamp(min=1)
    return torch.repeat_interleave(torch.arange(len(vocab)), reps)


def main():
    torch.manual_seed(5)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    vocab = Vocab(CORPUS)
    model = SkipGram(vocab, 8)
    noise = table(vocab)  # ALSO: 2
    data = torch.tensor(list(pairs([vocab.stoi[w] for w in CORPUS])))
    opt = torch.optim.Adam(model.parameters(), lr=0.02)
    model.to(device)
    for epoch in range(5):
        for step, chunk in enumerate(data.split(32)):
            c, pos = chunk.to(device).unbind(1)
            pick = (torch.arange(len(c) * 4) * 7 + step) % len(noise)
            neg = noise[pick].view(len(c), 4)  # BUG: any culprit=neg
            # FIX: neg = noise[pick].view(len(c), 4).to(device)
            loss = model(c, pos, neg)
            opt.zero_grad()
            loss.backward()
            opt.step()
    print("%.4f" % loss.item(), vocab.neighbours(model.center.weight.detach(), "cat"))


main()
