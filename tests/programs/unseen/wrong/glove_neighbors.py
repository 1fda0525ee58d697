"""GloVe on a toy corpus: co-occurrences in numpy, training in torch, nearest neighbors and analogies afterwards."""
import collections
import functools

import numpy as np
import torch

TEXT = """the cat sat on the mat the dog sat on the rug a cat and a dog ran on the mat
a king and a queen sat on the throne the king ran and the queen ran""".split()


class Vocabulary:
    def __init__(self, words):
        counts = collections.Counter(words)
        self.words = sorted(counts, key=lambda w: (-counts[w], w))
        self.index = {w: i for i, w in enumerate(self.words)}

    def __len__(self):
        return len(self.words)

    def ids(self, *words):
        return torch.tensor([self.index[w] for w in words])


def cooccurrences(words, vocab, window=3):
    table = np.zeros((len(vocab), len(vocab)), dtype=np.float32)
    for i, w in enumerate(words):
        for j in range(max(0, i - window), i):
            a, b = vocab.index[w], vocab.index[words[j]]
            table[a, b] += 1 / (i - j)
            table[b, a] += 1 / (i - j)
    return table


class Glove(torch.nn.Module):
    def __init__(self, n, dim):
        super().__init__()
        start = torch.sin(torch.arange(n * dim * 1.0)).view(n, dim) * 0.3
        self.w = torch.nn.Parameter(start.clone())
        self.c = torch.nn.Parameter(start.flip(0).clone())
        self.bw = torch.nn.Parameter(torch.zeros(n))
        self.bc = torch.nn.Parameter(torch.zeros(n))

    def forward(self, i, j):
        return (self.w[i] * self.c[j]).sum(1) + self.bw[i] + self.bc[j]

    def vectors(self):
        return torch.nn.functional.normalize((self.w + self.c).detach(), dim=1)


def weighting(x, x_max=2.0, alpha=0.75):
    return np.minimum(1, (x / x_max) ** alpha)


def compose(*functions):
    return functools.reduce(lambda f, g: lambda x: g(f(x)), functions)


def train(model, table, device, steps):
    rows, cols = np.nonzero(table)
    values = table[rows, cols]
    log_x = torch.from_numpy(np.log(values)).to(device)
    weight = torch.from_numpy(weighting(values))  # BUG: any culprit=weight
    # FIX: weight = torch.from_numpy(weighting(values)).to(device)
    i, j = torch.from_numpy(rows), torch.from_numpy(cols)
    opt = torch.optim.Adagrad(model.parameters(), lr=0.2)
    for _ in range(steps):
        error = model(i, j) - log_x
        loss = (weight * error.square()).mean()  # RAISES: 1
        opt.zero_grad()
        loss.backward()
        opt.step()
    return loss.item()


def nearest(vectors, query, vocab, skip):
    scores = vectors @ query  # RAISES: 2
    for w in skip:
        scores[vocab.index[w]] = -1
    return vocab.words[scores.argmax()]


def main():
    torch.manual_seed(0)
    vocab = Vocabulary(TEXT)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = Glove(len(vocab), 6).to(device)
    print("loss %.4f" % train(model, cooccurrences(TEXT, vocab), device, 40))
    vectors = model.vectors()
    table = vectors.cpu().numpy()
    for word in ("cat", "king"):
        query = torch.from_numpy(table[vocab.index[word]])  # BUG: any culprit=query
        # FIX: query = torch.from_numpy(table[vocab.index[word]]).to(device)
        print(word, "->", nearest(vectors, query, vocab, [word]))
    man, woman = vectors.index_select(0, vocab.ids("king", "queen"))  # BUG: any culprit=vocab.ids("king", "queen") # RAISES: 3
    # FIX: man, woman = vectors.index_select(0, vocab.ids("king", "queen").to(device))
    direction = compose(torch.neg, torch.neg)(woman - man)
    print("direction %.4f" % direction.norm().item())
    spread = np.linalg.svd(table - table.mean(0), compute_uv=False)
    print("explained %.3f" % (spread[0] ** 2 / (spread**2).sum()))


main()
