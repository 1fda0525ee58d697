# %% imports
import torch
import torch.nn as nn

device = "cuda" if torch.cuda.is_available() else "cpu"
torch.manual_seed(42)

# %% data: a noisy sine
x = torch.linspace(0, 6.28, 100).unsqueeze(1)
y = torch.sin(x) + 0.1 * torch.randn(100, 1)
x.to(device)  # BUG: to-not-assigned culprit=x
# FIX: x = x.to(device)
y.to(device)  # BUG: to-not-assigned culprit=y
# FIX: y = y.to(device)

# %% model
model = nn.Sequential(nn.Linear(1, 16), nn.Tanh(), nn.Linear(16, 1))
model.to(device)

# %% train
optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
loss_fn = nn.MSELoss()
for epoch in range(5):
    pred = model(x)  # RAISES: 1
    loss = loss_fn(pred, y)  # RAISES: 2
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print("final loss", round(loss.item(), 4))
