"""torch.where, clamp, masked_fill and friends with Python numbers and CPU scalars."""
import torch

x = torch.linspace(-2, 2, 9, device="cuda")
print(torch.where(x > 0, x, 0.0).tolist())
print(torch.where(x > 0, 1, torch.tensor(-1)).tolist())
print(x.clamp(-1, 1).sum().item(), x.clamp(min=0).device, x.masked_fill(x < 0, -1.0).min().item())
print(torch.where(torch.tensor(True, device="cuda"), x, -x).sum().item(), torch.nan_to_num(x / 0.0).isfinite().all().item())
y = x.clone()
y[y < 0] = 0
y[0] = torch.tensor(5.0)
y[torch.tensor(1)] += 1.5
y.fill_diagonal_ if False else y.fill_(torch.tensor(2.0))
print(y.tolist(), max(x).item(), float(x[3]), int(x[0]), bool((x == x).all()))
scale = torch.tensor(3.0, dtype=torch.float64)
print((x * scale).dtype, torch.addcmul(x, x, x, value=2.0).device, torch.lerp(x, y, 0.5).sum().item())
