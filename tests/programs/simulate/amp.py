# compare: none (autocast picks other dtypes and operators by device type)
# devices: 1
"""Mixed precision: autocast to bf16 and fp16, GradScaler with a step that overflows, accumulation, unscale and clip."""

import torch
from torch import nn

device = "cuda" if torch.cuda.is_available() else "cpu"
x = torch.linspace(-1, 1, 64 * 16).view(64, 16).to(device)
y = (x[:, :1] * 2).detach()


def build():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(16, 32), nn.LayerNorm(32), nn.GELU(), nn.Linear(32, 1)).to(device)


for dtype in (torch.bfloat16, torch.float16):
    model = build()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    scaler = torch.amp.GradScaler(device, enabled=dtype is torch.float16, init_scale=1024.0)
    losses = []
    for step in range(15):
        with torch.autocast(device_type=device, dtype=dtype):
            out = model(x)
            assert out.dtype is dtype, out.dtype
            loss = nn.functional.mse_loss(out.float(), y)
        assert loss.dtype is torch.float32
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
        losses.append(loss.item())
    assert all(p.dtype is torch.float32 for p in model.parameters())
    print(dtype, "learned", losses[-1] < losses[0] * 0.5, "scale", scaler.get_scale())

model = build()
optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)
scaler = torch.amp.GradScaler(device, init_scale=2.0**16, growth_interval=2)
before = [p.detach().clone() for p in model.parameters()]
(scaler.scale(model(x).sum()) * float("inf")).backward()
scaler.step(optimizer)
scaler.update()
print("skipped", all(torch.equal(a, b) for a, b in zip(before, model.parameters())), "scale", scaler.get_scale())
for _ in range(2):
    optimizer.zero_grad()
    scaler.scale(nn.functional.mse_loss(model(x), y)).backward()
    scaler.step(optimizer)
    scaler.update()
print("grew back to", scaler.get_scale(), "state", sorted(scaler.state_dict()))

with torch.autocast(device, dtype=torch.bfloat16):
    product = x @ x.T
    with torch.autocast(device, enabled=False):
        inner = x @ x.T
    norm = torch.nn.functional.layer_norm(x, (16,))
    print("matmul", product.dtype, "disabled", inner.dtype, "norm", norm.dtype, "enabled", torch.is_autocast_enabled(device))
