"""autocast and GradScaler around a model, with the loss in float32 outside."""
import torch
from torch import nn

torch.manual_seed(0)
device = torch.device("cuda")
model = nn.Sequential(nn.Linear(8, 16), nn.LayerNorm(16), nn.GELU(), nn.Linear(16, 3)).to(device)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
scaler = torch.amp.GradScaler("cuda", init_scale=256.0)
x, y = torch.randn(24, 8), torch.arange(24) % 3
smoothing = torch.tensor(0.1)
for step in range(3):
    with torch.autocast("cuda", dtype=torch.float16):
        logits = model(x.to(device, non_blocking=True))
    loss = nn.functional.cross_entropy(logits.float(), y.to(device), label_smoothing=float(smoothing))
    optimizer.zero_grad(set_to_none=True)
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    norm = nn.utils.clip_grad_norm_(model.parameters(), max_norm=1.0)
    scaler.step(optimizer)
    scaler.update()
print(logits.dtype, loss.dtype, bool(torch.isfinite(norm)), scaler.get_scale(), norm.device)
with torch.autocast("cpu", dtype=torch.bfloat16):
    print(nn.Linear(2, 2)(torch.ones(1, 2)).dtype)
