"""Memory side by side: three trainings on the card and on a simulated device. What a card adds is cuBLAS's workspaces,
which are taken from the same allocator; without them the two agree to the byte."""

import json
import textwrap

import pytest

TRAININGS = {
    "MLP": """
        model = nn.Sequential(nn.Linear(784, 2048), nn.ReLU(), nn.Linear(2048, 2048), nn.ReLU(), nn.Linear(2048, 10))
        make_optimizer = lambda p: torch.optim.Adam(p)
        x = torch.randn(256, 784, device="cuda"); y = torch.randint(0, 10, (256,), device="cuda")
        loss_of = nn.CrossEntropyLoss()
    """,
    "classifier": """
        def layer(inputs, outputs, stride):
            convolution = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
            return nn.Sequential(convolution, nn.BatchNorm2d(outputs), nn.ReLU())

        model = nn.Sequential(layer(3, 64, 1), layer(64, 128, 2), layer(128, 256, 2), layer(256, 256, 1),
                              nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(256, 10))
        make_optimizer = lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9)
        x = torch.randn(32, 3, 64, 64, device="cuda"); y = torch.randint(0, 10, (32,), device="cuda")
        loss_of = nn.CrossEntropyLoss()
    """,
    "autoencoder": """
        model = nn.Sequential(nn.Conv2d(1, 32, 4, 2, 1), nn.ReLU(), nn.Conv2d(32, 64, 4, 2, 1), nn.ReLU(),
                              nn.ConvTranspose2d(64, 32, 4, 2, 1), nn.ReLU(), nn.ConvTranspose2d(32, 1, 4, 2, 1))
        make_optimizer = lambda p: torch.optim.RMSprop(p)
        x = torch.randn(64, 1, 64, 64, device="cuda"); y = x
        loss_of = nn.MSELoss()
    """,
}
BODY = """
import json
import torch
from torch import nn
{setting}
before = torch.cuda.memory_allocated()
model = model.to("cuda")
held = torch.cuda.memory_allocated() - before
optimizer = make_optimizer(model.parameters())
for _ in range(3):
    optimizer.zero_grad()
    loss_of(model(x), y).backward()
    optimizer.step()
torch.cuda.synchronize()
after, peak = torch.cuda.memory_allocated(), torch.cuda.max_memory_allocated()
if hasattr(torch._C, "_cuda_clearCublasWorkspaces"):
    torch._C._cuda_clearCublasWorkspaces()
print(json.dumps([held, after, peak, torch.cuda.memory_allocated()]))
"""


@pytest.mark.parametrize("name", TRAININGS)
def test_memory(program, name, record_property, capsys):
    source = BODY.format(setting=textwrap.dedent(TRAININGS[name]))
    real = json.loads(program.run_source(source).ok().stdout)
    simulated = json.loads(program.run_source(source, simulate=1).ok().stdout)
    with capsys.disabled():
        print(f"\n{name}: bytes of the model, after three steps, at the peak, without workspaces")
        print(f"  card      {real}\n  simulated {simulated}")
    assert simulated[0] == real[0]
    assert simulated[3] == real[3]
    assert simulated[2] <= real[2]
