"""NumPy in and out, always by way of the CPU."""
import numpy as np
import torch
from torch import nn

rng = np.random.default_rng(0)
data = rng.standard_normal((12, 3)).astype(np.float32)
model = nn.Linear(3, 2).to("cuda")
with torch.no_grad():
    model.weight.copy_(torch.from_numpy(np.ones((2, 3), dtype=np.float32)))
    model.bias.zero_()
    x = torch.as_tensor(data, device="cuda")
    scores = model(x).cpu().numpy()
print(np.allclose(scores[:, 0], data.sum(1), atol=1e-5), scores.dtype, x.shape == data.shape)
labels = scores.argmax(1)
print(torch.from_numpy(labels).cuda().float().mean().item() == labels.mean(), np.float32(2.0) * x[0, 0].item() != 0)
history = [model(x).square().mean() for _ in range(2)]
print(np.mean([h.item() for h in history]) > 0, np.array(torch.stack(history).detach().cpu()).shape)
x[0] = torch.tensor(data[1])
x *= float(np.sqrt(4.0))
print(len(x.tolist()), torch.tensor(np.arange(3)).to("cuda").sum().item(), x.detach().to("cpu", torch.float64).numpy().dtype)
