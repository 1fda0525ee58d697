"""Beam search: finished hypotheses go to the host as lists, the beams stay on the device."""
import torch
from torch import nn


class Decoder(nn.Module):
    def __init__(self, vocab, width=12):
        super().__init__()
        self.embed = nn.Embedding(vocab, width)
        self.cell = nn.GRUCell(width, width)
        self.out = nn.Linear(width, vocab)

    def forward(self, token, state):
        state = self.cell(self.embed(token), state)
        return self.out(state).log_softmax(-1), state


@torch.no_grad()
def search(decoder, beams, max_length, eos):
    device = next(decoder.parameters()).device
    tokens = torch.zeros(beams, 1, dtype=torch.long, device=device)
    state = decoder.out.weight.new_zeros(beams, 12)
    scores = torch.full((beams,), -float("inf"), device=device)
    scores[0] = 0
    done = []
    for _ in range(max_length):
        logp, state = decoder(tokens[:, -1], state)
        scores, flat = (scores[:, None] + logp).view(-1).topk(beams)
        parent, token = torch.div(flat, logp.size(1), rounding_mode="floor"), flat % logp.size(1)
        tokens, state = torch.cat([tokens[parent], token[:, None]], 1), state[parent]
        for i in (token == eos).nonzero().flatten().tolist():
            done.append((scores[i].item() / tokens.size(1), tokens[i].tolist()))
            scores[i] = -float("inf")
    return sorted(done, reverse=True) or [(scores[0].item(), tokens[0].tolist())]


torch.manual_seed(1)
decoder = Decoder(7).to("cuda").eval()
best = search(decoder, 3, 5, eos=1)
print(best[0][1], len(best) > 0)
