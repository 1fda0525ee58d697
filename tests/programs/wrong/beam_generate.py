"""Batched beam search over a small language model, with a hypothesis table."""
import torch
from torch import nn


class LM(nn.Module):
    def __init__(self, vocab=11, dim=8):
        super().__init__()
        self.vocab = vocab
        self.emb = nn.Embedding(vocab, dim)
        self.rnn = nn.GRU(dim, dim, batch_first=True)
        self.head = nn.Linear(dim, vocab)

    def forward(self, ids):
        out, _ = self.rnn(self.emb(ids))
        return self.head(out[:, -1]).log_softmax(-1)


@torch.no_grad()
def beam_search(model, prompt, num_beams=3, max_new=4, eos=0):
    batch = prompt.size(0)
    ids = prompt.repeat_interleave(num_beams, 0)
    beam_scores = torch.full((batch, num_beams), -1e9)  # BUG: default-device culprit=beam_scores
    # FIX: beam_scores = torch.full((batch, num_beams), -1e9, device=prompt.device)
    beam_scores[:, 0] = 0
    done = torch.zeros(batch, num_beams, dtype=torch.bool, device=prompt.device)
    for _ in range(max_new):
        scores = model(ids).view(batch, num_beams, -1)
        scores = scores.masked_fill(done[..., None], float("-inf"))
        scores[..., eos] = torch.where(done, torch.zeros_like(scores[..., eos]), scores[..., eos])
        total = (beam_scores[..., None] + scores).view(batch, -1)  # RAISES: 1
        beam_scores, flat = total.topk(num_beams, dim=1)
        beam, token = flat // model.vocab, flat % model.vocab
        offsets = torch.arange(batch)[:, None] * num_beams  # BUG: default-device culprit=offsets
        # FIX: offsets = torch.arange(batch, device=ids.device)[:, None] * num_beams
        chosen = (beam + offsets).view(-1)  # RAISES: 2
        ids = torch.cat([ids[chosen], token.view(-1, 1)], dim=1)
        done = done.gather(1, beam) | (token == eos)
    return ids.view(batch, num_beams, -1)[:, 0], beam_scores[:, 0]


torch.manual_seed(0)
lm = LM().cuda().eval()
best, score = beam_search(lm, torch.randint(1, 11, (2, 3)).cuda())
print(best.shape, score.shape)
