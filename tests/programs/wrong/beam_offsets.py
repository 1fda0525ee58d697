"""Beam search on the GPU; the bookkeeping of beams is tensors too."""
import torch
import torch.nn as nn


@torch.no_grad()
def beam_search(step, start, beams, length, vocab):
    device = start.device
    batch = start.size(0)
    tokens = start.repeat_interleave(beams, 0)
    scores = torch.full((batch, beams), -1e9, device=device)
    scores[:, 0] = 0
    offset = torch.arange(batch).unsqueeze(1) * beams  # BUG: default-device culprit=offset
    # FIX: offset = torch.arange(batch, device=device).unsqueeze(1) * beams
    for _ in range(length):
        logp = step(tokens).view(batch, beams, vocab)
        scores, flat = (scores.unsqueeze(-1) + logp).view(batch, -1).topk(beams)
        beam, token = flat // vocab, flat % vocab
        rows = (beam + offset).view(-1)  # RAISES: 1
        tokens = torch.cat([tokens[rows], token.view(-1, 1)], dim=1)
    return tokens.view(batch, beams, -1), scores


torch.manual_seed(0)
vocab = 9
embed, project = nn.Embedding(vocab, 8).cuda(), nn.Linear(8, vocab).cuda()
best, scores = beam_search(
    lambda tokens: project(embed(tokens).mean(1)).log_softmax(-1),
    torch.zeros(2, 1, dtype=torch.long, device="cuda"),
    beams=3, length=4, vocab=vocab,
)
print(best[:, 0].tolist(), scores.shape)
