# compare: close
# devices: 1
"""Exponential moving average by deepcopy, SWA, pickling and cloning of models and optimizers."""

import copy
import io
import pickle

import torch
from torch import nn
from torch.optim.swa_utils import SWALR, AveragedModel, get_ema_multi_avg_fn, update_bn

torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = nn.Sequential(nn.Linear(6, 12), nn.BatchNorm1d(12), nn.ReLU(), nn.Linear(12, 1)).to(device)
teacher = copy.deepcopy(model).requires_grad_(False)
assert all(t.device == s.device and t.data_ptr() != s.data_ptr() for t, s in zip(teacher.parameters(), model.parameters()))

optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
averaged = AveragedModel(model)
ema = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(0.9), use_buffers=True)
swa = SWALR(optimizer, swa_lr=5e-3, anneal_epochs=3)
x, y = torch.randn(32, 6).to(device), torch.randn(32, 1).to(device)

for step in range(10):
    loss = nn.functional.mse_loss(model(x), y) + 0.1 * nn.functional.mse_loss(model(x), teacher(x))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    with torch.no_grad():
        for t, s in zip(teacher.parameters(), model.parameters()):
            t.lerp_(s, 0.1)
        for t, s in zip(teacher.buffers(), model.buffers()):
            t.copy_(s)
    averaged.update_parameters(model)
    ema.update_parameters(model)
    swa.step()
    print(f"step {step} loss {loss.item():.5f}")
update_bn([x[:16], x[16:]], averaged, device=device)
for name, m in (("teacher", teacher), ("swa", averaged), ("ema", ema)):
    m.eval()
    print(name, f"{nn.functional.mse_loss(m(x), y).item():.5f}")

again = pickle.loads(pickle.dumps(teacher))
assert next(again.parameters()).device == next(teacher.parameters()).device
print("pickled", torch.equal(again.eval()(x), teacher(x)))
tensors = {"a": x[:2], "shared": x[:4]}
copied = copy.deepcopy(tensors)  # views of one storage stay views of one storage
print("views stay views", copied["a"].data_ptr() == copied["shared"].data_ptr(), copied["a"].data_ptr() != x.data_ptr())
buffer = io.BytesIO()
torch.save(model, buffer)
buffer.seek(0)
whole = torch.load(buffer, weights_only=False)
print("whole model", torch.equal(whole.eval()(x), model.eval()(x)))
twin = torch.optim.Adam(again.requires_grad_(True).parameters(), lr=1e-2)
twin.load_state_dict(copy.deepcopy(optimizer.state_dict()))
state = twin.state[next(again.parameters())]
assert state["exp_avg"].device.type == device.type
print("optimizer state", int(state["step"]), f"{state['exp_avg'].abs().sum().item():.5f}")
