# Beam bookkeeping on the host, scores from the device
import heapq
import torch

torch.manual_seed(1)
device = "cuda" if torch.cuda.is_available() else "cpu"
V, H = 7, 6
emb = torch.nn.Embedding(V, H).to(device)
rnn = torch.nn.GRUCell(H, H).to(device)
head = torch.nn.Linear(H, V).to(device)


@torch.no_grad()
def expand(tokens, states):
    t = torch.tensor(tokens, device=device)
    h = rnn(emb(t), torch.stack(states))
    return head(h).log_softmax(-1), h


def search(width=3, steps=5):
    beams = [(0.0, [0], torch.zeros(H, device=device))]
    for _ in range(steps):
        logp, h = expand([b[1][-1] for b in beams], [b[2] for b in beams])
        cand = []
        top = logp.topk(width, dim=1)
        for i, (vals, idxs) in enumerate(zip(top.values.cpu(), top.indices.cpu())):
            for v, j in zip(vals, idxs):
                cand.append((beams[i][0] + v.item(), beams[i][1] + [int(j)], h[i]))
        beams = heapq.nlargest(width, cand, key=lambda c: c[0])
    return beams


for score, toks, _ in search():
    print("%.4f" % score, toks)
