import torch, torch.nn as nn
from torch.nn import functional as F

# hyperparameters
batch_size, block_size, n_embd, n_head, vocab_size = 4, 8, 16, 2, 27
device = 'cuda' if torch.cuda.is_available() else 'cpu'
torch.manual_seed(1337)

data = torch.randint(0, vocab_size, (200,))

def get_batch():
    ix = torch.randint(len(data) - block_size, (batch_size,))
    x = torch.stack([data[i:i+block_size] for i in ix])
    y = torch.stack([data[i+1:i+block_size+1] for i in ix])
    return x.to(device), y.to(device)

class SelfAttention(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv = nn.Linear(n_embd, 3 * n_embd, bias=False)
        self.proj = nn.Linear(n_embd, n_embd)

    def forward(self, x):
        B, T, C = x.shape
        q, k, v = self.qkv(x).view(B, T, 3, n_head, C // n_head).permute(2, 0, 3, 1, 4)
        wei = q @ k.transpose(-2, -1) * (C // n_head) ** -0.5
        tril = torch.tril(torch.ones(T, T))  # BUG: default-device culprit=tril
        # FIX: tril = torch.tril(torch.ones(T, T, device=x.device))
        wei = wei.masked_fill(tril == 0, float('-inf'))  # RAISES: 1
        return self.proj((F.softmax(wei, dim=-1) @ v).transpose(1, 2).reshape(B, T, C))

class GPT(nn.Module):
    def __init__(self):
        super().__init__()
        self.tok = nn.Embedding(vocab_size, n_embd)
        self.pos = nn.Embedding(block_size, n_embd)
        self.sa = SelfAttention()
        self.ln = nn.LayerNorm(n_embd)
        self.lm_head = nn.Linear(n_embd, vocab_size)

    def forward(self, idx, targets=None):
        B, T = idx.shape
        positions = torch.arange(T)  # BUG 2: default-device culprit=positions
        # FIX: positions = torch.arange(T, device=idx.device)
        x = self.tok(idx)
        x = x + self.sa(self.ln(x))
        x = x + self.pos(positions)  # RAISES: 2
        logits = self.lm_head(x)
        return logits, None if targets is None else F.cross_entropy(logits.view(B*T, -1), targets.view(B*T))

m = GPT().to(device)
optimizer = torch.optim.AdamW(m.parameters(), lr=1e-3)
for it in range(3):
    xb, yb = get_batch()
    logits, loss = m(xb, yb)
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    optimizer.step()
    print(f"iter {it}: {loss.item():.3f}")
