"""A window language model on made-up names, sampled with a nucleus and a repetition penalty."""
import torch
import torch.nn as nn
import torch.nn.functional as F

LETTERS = ".^abdeiklmnorsu"
END, BEGIN, WINDOW = 0, 1, 3
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")


def make_names(n, gen):
    parts = ["mar", "lo", "de", "bi", "ran", "ka", "su", "ne"]
    for _ in range(n):
        pick = torch.randint(len(parts), (2,), generator=gen).tolist()
        yield "".join(parts[p] for p in pick)


def encode(names, width=8):
    out = torch.full((len(names), width), END)
    for i, s in enumerate(names):
        out[i, :len(s)] = torch.tensor([LETTERS.index(c) for c in s])
    return out


class WindowLM(nn.Module):
    def __init__(self, dim=10, hidden=32):
        super().__init__()
        self.emb = nn.Embedding(len(LETTERS), dim)
        self.net = nn.Sequential(nn.Linear(dim * WINDOW, hidden), nn.Tanh(), nn.Linear(hidden, len(LETTERS)))

    def forward(self, ids):
        """Logits for each position of ids and the one after it."""
        front = torch.full((len(ids), WINDOW), BEGIN)  # BUG: any culprit=front
        # FIX: front = torch.full((len(ids), WINDOW), BEGIN, device=ids.device)
        padded = torch.cat([front, ids], 1)  # RAISES: 1
        ctx = padded.unfold(1, WINDOW, 1)
        return self.net(self.emb(ctx).flatten(2))


def nucleus(logits, p):
    prob, order = logits.softmax(-1).sort(descending=True)
    prob = prob.masked_fill(prob.cumsum(-1) - prob > p, 0.0)
    return torch.zeros_like(prob).scatter(1, order, prob)


class RepetitionPenalty:
    def __init__(self, batch, strength):
        self.count = torch.zeros(batch, len(LETTERS))  # BUG: any culprit=self.count
        # FIX: self.count = torch.zeros(batch, len(LETTERS), device=device)
        self.strength = strength

    def apply(self, logits):
        return logits - self.strength * self.count  # RAISES: 2

    def note(self, ids):
        self.count.scatter_add_(1, ids, torch.ones(ids.shape, device=ids.device))


@torch.no_grad()
def sample(model, batch, steps, gen, p=0.8):
    ids = torch.empty(batch, 0, dtype=torch.long, device=device)
    done = torch.zeros(batch, 1, dtype=torch.bool)  # BUG: any culprit=done
    # FIX: done = torch.zeros(batch, 1, dtype=torch.bool, device=device)
    penalty = RepetitionPenalty(batch, 0.4)
    for _ in range(steps):
        logits = penalty.apply(model(ids)[:, -1])
        logits[:, [BEGIN]] = float("-inf")
        probs = nucleus(logits, p).cpu()
        nxt = torch.multinomial(probs, 1, generator=gen).to(device)
        nxt = nxt.masked_fill(done, END)  # RAISES: 3
        done = done | (nxt == END)
        penalty.note(nxt)
        ids = torch.cat([ids, nxt], 1)
    return ids


def bits(model, data):
    logits = model(data[:, :-1])
    return F.cross_entropy(logits.flatten(0, 1), data.flatten()) / torch.log(torch.tensor(2.0))


def main():
    torch.manual_seed(80)
    gen = torch.Generator().manual_seed(80)
    data = encode(list(make_names(64, gen))).to(device)
    model = WindowLM().to(device)
    opt = torch.optim.Adam(model.parameters(), lr=1e-2)
    for step in range(40):
        loss = bits(model, data)
        opt.zero_grad()
        loss.backward()
        opt.step()
        if step % 10 == 9:
            print(f"{step + 1} bits {loss.item():.4f}")
    for row in sample(model, 4, 8, gen).tolist():
        print("".join(LETTERS[i] for i in row).split(".")[0])


main()
