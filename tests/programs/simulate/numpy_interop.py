# compare: exact
# devices: 1
"""NumPy, lists, iteration and DLPack: what crosses to the host by .cpu(), and what refuses to cross by itself."""

import io

import numpy as np
import torch

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
array = np.linspace(0, 1, 12, dtype=np.float32).reshape(3, 4)
x = torch.from_numpy(array).to(device)
y = torch.tensor(array * 2, device=device)
print((x + y).cpu().numpy().sum().round(5), y.detach().cpu().numpy().dtype, torch.as_tensor(array, device=device).sum().item())

if device.type == "cuda":
    for convert in (lambda: x.numpy(), lambda: np.asarray(x), lambda: np.array(x)):
        try:
            convert()
            raise SystemExit("a device tensor became a NumPy array")
        except TypeError as error:
            assert "can't convert cuda:0 device type tensor to numpy" in str(error), error
print([round(float(v), 4) for v in x[0]], max(x.flatten().tolist()), x[1, 2].item() == array[1, 2].item())
print(sum(1 for row in x for _ in row), 0.5 in torch.tensor([0.5, 1.0], device=device), x.shape, len(x))
host = x.to("cpu", copy=True)
host[0, 0] = 99
print(x[0, 0].item(), bool((x == x.cpu().to(device)).all()), x.cpu().numpy().flags["C_CONTIGUOUS"])

x[x > 0.5] = 0
x[:, 1] = torch.tensor([7.0, 8.0, 9.0]).to(device)
x[0, [0, 2]] = 5.0
x.masked_fill_(x == 9, -1)
x[torch.tensor([2]), torch.tensor([3])] = 4.0  # index tensors may stay on the CPU
print(x.tolist())
print(x[torch.tensor([2, 0])].sum().item(), x[..., None].shape, x[::2, 1:3].tolist(), torch.nonzero(x).shape)

shared = torch.from_dlpack(y)
shared += 1
print("dlpack shares", torch.equal(shared, y), shared.device == y.device)
weights = np.ones((4, 2), dtype=np.float32)
print((y @ torch.from_numpy(weights).to(device)).sum().item(), np.float32(2.0) * y.sum().item(), (y * np.float64(0.5)).dtype)
np.savez(file := io.BytesIO(), w=weights)
file.seek(0)
loaded = {k: torch.from_numpy(v).to(device) for k, v in np.load(file).items()}
print({k: tuple(v.shape) for k, v in loaded.items()}, y.element_size() * y.nelement(), y.is_contiguous(), y.t().stride())
