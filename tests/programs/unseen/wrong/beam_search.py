"""Beam search over a GRU language model."""
import torch
import torch.nn as nn


class GRULM(nn.Module):
    def __init__(self, vocab, dim):
        super().__init__()
        self.emb = nn.Embedding(vocab, dim)
        self.cell = nn.GRUCell(dim, dim)
        self.out = nn.Linear(dim, vocab)
        self.dim = dim

    def init_state(self, n):
        return torch.zeros(n, self.dim)  # BUG: any culprit=state
        # FIX: return torch.zeros(n, self.dim, device=self.out.weight.device)

    def step(self, tok, state):
        state = self.cell(self.emb(tok), state)  # RAISES: 1 # RAISES: 3
        return torch.log_softmax(self.out(state), dim=-1), state


def length_penalty(n, alpha=0.6):
    return ((5 + n) / 6) ** alpha


@torch.no_grad()
def beam_search(model, bos, eos, width=3, max_len=7):
    device = next(model.parameters()).device
    scores = torch.zeros(1)  # BUG: any culprit=scores
    # FIX: scores = torch.zeros(1, device=device)
    seqs = torch.full((1, 1), bos, device=device)
    state = model.init_state(1)
    done = []
    for t in range(max_len):
        logp, state = model.step(seqs[:, -1], state)
        total = scores.unsqueeze(1) + logp  # RAISES: 2
        flat, idx = total.view(-1).topk(width)
        beam = torch.div(idx, logp.size(1), rounding_mode="floor")
        tok = idx % logp.size(1)
        seqs = torch.cat([seqs[beam], tok.unsqueeze(1)], dim=1)
        state, scores = state[beam], flat
        ended = tok == eos
        for s, v in zip(seqs[ended], scores[ended]):
            done.append((v.item() / length_penalty(t + 1), s.tolist()))
        keep = ~ended
        if not keep.any():
            break
        seqs, state, scores = seqs[keep], state[keep], scores[keep]
    done += [(v.item() / length_penalty(max_len), s.tolist()) for s, v in zip(seqs, scores)]
    return max(done)


def train(model, corpus, device, epochs=30):
    opt = torch.optim.Adam(model.parameters(), lr=0.02)
    for _ in range(epochs):
        state = torch.zeros(corpus.size(0), model.dim, device=device)
        loss = 0.0
        for a, b in zip(corpus.t()[:-1], corpus.t()[1:]):
            logp, state = model.step(a, state)
            loss = loss + nn.functional.nll_loss(logp, b)
        opt.zero_grad()
        loss.backward()
        opt.step()
    return loss.item()


def main():
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    torch.manual_seed(31)
    corpus = torch.tensor([[1, 3, 4, 5, 2], [1, 3, 6, 5, 2], [1, 7, 4, 5, 2]])  # BUG: any culprit=corpus
    # FIX: corpus = torch.tensor([[1, 3, 4, 5, 2], [1, 3, 6, 5, 2], [1, 7, 4, 5, 2]], device=device)
    lm = GRULM(9, 12).to(device)
    final = train(lm, corpus, device)
    score, best = beam_search(lm, bos=1, eos=2)
    print(f"{final:.3f} {score:.3f} {best}")


main()
