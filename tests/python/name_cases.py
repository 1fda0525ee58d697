"""Programs with one mistake each, and the name that a person has for the tensor; for test_names.py."""

START = """\
import torch
from torch import nn
import torch.nn.functional as F
device = torch.device("cuda:0")
x = torch.ones(2, 4, device=device)
"""

# name of the test: program, expected name, kind, expression.
PROGRAMS = {
    "parameter": ("net = nn.Linear(4, 4)\nnet(x)\n", "net.weight", "parameter", None),
    "nested parameter": (
        "net = nn.Sequential(nn.ReLU(), nn.Sequential(nn.Linear(4, 4)))\nnet(x)\n",
        "net[1][0].weight", "parameter", None,
    ),
    "parts of one buffer": (
        "net = nn.Sequential(nn.Linear(4, 3), nn.Linear(3, 4))\n"
        "flat, start = torch.cat([p.detach().flatten() for p in net.parameters()]), 0\n"
        "for p in net.parameters():\n"
        "    p.data = flat[start : start + p.numel()].view_as(p)\n"
        "    start += p.numel()\n"
        "del flat, p\n"
        "F.linear(x, net[0].weight)\n",
        "net[0].weight", "parameter", "net[0].weight",
    ),
    "buffer": (
        "class Net(nn.Module):\n"
        "    def __init__(self):\n"
        "        super().__init__()\n"
        "        self.register_buffer('scale', torch.ones(4))\n"
        "    def forward(self, x):\n"
        "        return x * self.scale\n"
        "net = Net()\nnet(x)\n",
        "net.scale", "buffer", "self.scale",
    ),
    "plain attribute": (
        "class Pos(nn.Module):\n"
        "    def __init__(self):\n"
        "        super().__init__()\n"
        "        self.pe = torch.zeros(8, 4)\n"
        "    def forward(self, x):\n"
        "        return x + self.pe[: x.size(0)]\n"
        "class Net(nn.Module):\n"
        "    def __init__(self):\n"
        "        super().__init__()\n"
        "        self.pos = Pos()\n"
        "        self.fc = nn.Linear(4, 4)\n"
        "    def forward(self, x):\n"
        "        return self.pos(self.fc(x))\n"
        "net = Net().to(device)\nnet(x)\n",
        "net.pos.pe", "plain-attribute", "self.pe[: x.size(0)]",
    ),
    "plain attribute by another name": (
        "class Net(nn.Module):\n"
        "    def __init__(self):\n"
        "        super().__init__()\n"
        "        self.pe = torch.zeros(4)\n"
        "    def forward(self, x):\n"
        "        table = self.pe\n"
        "        return x + table\n"
        "net = Net()\nnet(x)\n",
        "net.pe", "plain-attribute", "table",
    ),
    "class attribute": (
        "class Net(nn.Module):\n"
        "    scale = torch.ones(4)\n"
        "    def forward(self, x):\n"
        "        return x * self.scale\n"
        "net = Net()\nnet(x)\n",
        "net.scale", "plain-attribute", "self.scale",
    ),
    "list of tensors": (
        "class Net(nn.Module):\n"
        "    def __init__(self):\n"
        "        super().__init__()\n"
        "        self.masks = [torch.ones(4), torch.zeros(4)]\n"
        "    def forward(self, x):\n"
        "        return x * self.masks[1]\n"
        "net = Net()\nnet(x)\n",
        "net.masks[1]", "plain-container", "self.masks[1]",
    ),
    "list of modules": (
        "class Net(nn.Module):\n"
        "    def __init__(self):\n"
        "        super().__init__()\n"
        "        self.layers = [nn.Identity(), nn.Identity(), nn.Linear(4, 4)]\n"
        "    def forward(self, x):\n"
        "        for layer in self.layers:\n"
        "            x = layer(x)\n"
        "        return x\n"
        "net = Net().to(device)\nnet(x)\n",
        "net.layers[2].weight", "plain-container", None,
    ),
    "dict of modules": (
        "class Net(nn.Module):\n"
        "    def __init__(self):\n"
        "        super().__init__()\n"
        "        self.heads = {'a': nn.Linear(4, 4)}\n"
        "    def forward(self, x):\n"
        "        return self.heads['a'](x)\n"
        "net = Net().to(device)\nnet(x)\n",
        'net.heads["a"].weight', "plain-container", None,
    ),
    "module dict": (
        "net = nn.ModuleDict({'a': nn.Linear(4, 4)})\nnet['a'](x)\n", 'net["a"].weight', "parameter", None,
    ),
    "loss weight": (
        "criterion = nn.CrossEntropyLoss(weight=torch.ones(4))\n"
        "criterion(x, torch.zeros(2, dtype=torch.long, device=device))\n",
        "criterion.weight", "loss-weight", None,
    ),
    "optimizer state": (
        "net = nn.Linear(4, 4)\n"
        "optimizer = torch.optim.Adam(net.parameters(), foreach=False)\n"
        "net(torch.ones(1, 4)).sum().backward()\n"
        "optimizer.step()\n"
        "net.to(device)\n"
        "optimizer.step()\n",
        'Adam.state[net.weight]["exp_avg"]', "optimizer-state", None,
    ),
    "gradient": (
        "net = nn.Linear(4, 4)\n"
        "net(torch.ones(1, 4)).sum().backward()\n"
        "x.mean(0) + net.weight.grad\n",
        "net.weight.grad", "gradient", "net.weight.grad",
    ),
    "gradient of a variable": (
        "w = torch.ones(2, 4, requires_grad=True)\nw.sum().backward()\ng = w.grad\nx + g\n", "g", "variable", "g",
    ),
    "batch from a loader": (
        "from torch.utils.data import DataLoader, TensorDataset\n"
        "loader = DataLoader(TensorDataset(torch.ones(2, 4), torch.zeros(2, dtype=torch.long)), batch_size=2)\n"
        "criterion = nn.CrossEntropyLoss()\n"
        "for inputs, targets in loader:\n"
        "    inputs = inputs.to(device)\n"
        "    criterion(inputs, targets)\n",
        "targets", "batch", "targets",
    ),
    "batch as a dict": (
        "loader = [{'ids': x, 'mask': torch.ones(2, 4)}]\n"
        "for batch in loader:\n"
        "    batch['ids'] * batch['mask']\n",
        'batch["mask"]', "batch", "batch['mask']",
    ),
    "batch as a list": (
        "loader = [(x, [torch.ones(2, 4)])]\n"
        "for i, (inputs, targets) in enumerate(loader):\n"
        "    inputs + targets[0]\n",
        "targets[0]", "batch", "targets[0]",
    ),
    "batch unpacked in the loop": (
        "def batches():\n"
        "    yield x, torch.ones(2, 4)\n"
        "for batch in batches():\n"
        "    a, b = batch\n"
        "    a + b\n",
        "b", "batch", "b",
    ),
    "batch in a function": (
        "def step(inputs, labels):\n"
        "    return inputs + labels\n"
        "def main(loader):\n"
        "    for a, b in loader:\n"
        "        step(a, b)\n"
        "main([(x, torch.ones(2, 4))])\n",
        "b", "batch", "labels",
    ),
    "batch from next": ("it = iter([(x, torch.ones(4))])\na, b = next(it)\na + b\n", "b", "batch", "b"),
    "loop over tensors that are no batch": (
        "hidden = [torch.ones(4)]\nfor h in hidden:\n    x + h\n", "h", "variable", "h",
    ),
    "batch moved, then computed": (
        "loader = [torch.ones(4)]\nfor a in loader:\n    a = a * 2\n    x + a\n", "a", "variable", "a",
    ),
    "attribute of an object": (
        "class State:\n    pass\nstate = State()\nstate.mean = torch.ones(4)\nx - state.mean\n",
        "state.mean", "object-attribute", "state.mean",
    ),
    "attribute of an object with slots": (
        "class State:\n    __slots__ = ('mean',)\nstate = State()\nstate.mean = torch.ones(4)\nx - state.mean\n",
        "state.mean", "object-attribute", "state.mean",
    ),
    "attribute of self": (
        "class Trainer:\n"
        "    def __init__(self):\n"
        "        self.mean = torch.ones(4)\n"
        "    def fit(self):\n"
        "        return x - self.mean\n"
        "Trainer().fit()\n",
        "self.mean", "object-attribute", "self.mean",
    ),
    "model of a trainer": (
        "class Trainer:\n"
        "    def __init__(self):\n"
        "        self.model = nn.Linear(4, 4)\n"
        "    def fit(self):\n"
        "        return self.model(x)\n"
        "trainer = Trainer()\ntrainer.fit()\n",
        "trainer.model.weight", "parameter", None,
    ),
    "closure": (
        "def make():\n"
        "    table = torch.ones(4)\n"
        "    def use(a):\n"
        "        return a + table\n"
        "    return use\n"
        "make()(x)\n",
        "table", "closure", "table",
    ),
    "global": ("TABLE = torch.ones(4)\ndef use(a):\n    return a + TABLE\nuse(x)\n", "TABLE", "global", "TABLE"),
    "variable": ("def use(a):\n    h = torch.ones(4)\n    return a @ h\nuse(x)\n", "h", "variable", "h"),
    "element of a variable": (
        "parts = {'a': [torch.ones(4)]}\nx + parts['a'][0]\n", 'parts["a"][0]', "variable", "parts['a'][0]",
    ),
    "temporary": ("x @ torch.eye(4)\n", "torch.eye(4)", "temporary", "torch.eye(4)"),
    "computed from a variable": ("y = torch.ones(4)\nx + (y * 2)\n", "y", "variable", "y * 2"),
    "computed from two": ("y, z = torch.ones(4), torch.ones(4)\nx + y * z\n", "y * z", "temporary", "y * z"),
    "computed by a function of the program": (
        "def f(a):\n    return torch.eye(4)[0]\ny = torch.ones(4)\nx + f(y)\n", "f(y)", "temporary", "f(y)",
    ),
    "computed from an attribute": (
        "class Net(nn.Module):\n"
        "    def __init__(self):\n"
        "        super().__init__()\n"
        "        self.queue = torch.zeros(4)\n"
        "    def forward(self, x):\n"
        "        return x + self.queue.clone().detach()\n"
        "net = Net()\nnet(x)\n",
        "net.queue", "plain-attribute", "self.queue.clone().detach()",
    ),
    "in place": ("y = torch.ones(2, 4)\nx += y\n", "y", "variable", "y"),
    "compared": ("y = torch.ones(2, 4)\n(x.abs() == y).sum()\n", "y", "variable", "y"),
    "function": ("w = torch.ones(4, 4)\nF.linear(x, w)\n", "w", "variable", "w"),
    "keyword": ("w = torch.ones(4, 4)\nF.linear(weight=w, input=x)\n", "w", "variable", "w"),
    "method": ("w = torch.ones(4, 4)\nx.matmul(w)\n", "w", "variable", "w"),
    "cat": ("y = torch.ones(2, 4)\ntorch.cat([x, y])\n", "y", "variable", "y"),
    "library function": (
        "y = torch.ones(2, 4)\nF.mse_loss(x, y[:, :])\n", "y", "variable", "y[:, :]",
    ),
    "context of a function": (
        "class Scale(torch.autograd.Function):\n"
        "    @staticmethod\n"
        "    def forward(ctx, a, scale):\n"
        "        ctx.scale = scale\n"
        "        return a * 2\n"
        "    @staticmethod\n"
        "    def backward(ctx, grad):\n"
        "        return grad * ctx.scale, None\n"
        "a = torch.ones(4, device=device, requires_grad=True)\n"
        "Scale.apply(a, torch.ones(4)).sum().backward()\n",
        "ctx.scale", "function-context", "ctx.scale",
    ),
    "saved for backward": (
        "class Scale(torch.autograd.Function):\n"
        "    @staticmethod\n"
        "    def forward(ctx, a, scale):\n"
        "        ctx.save_for_backward(scale)\n"
        "        return a * 2\n"
        "    @staticmethod\n"
        "    def backward(ctx, grad):\n"
        "        (saved,) = ctx.saved_tensors\n"
        "        return grad * saved, None\n"
        "a = torch.ones(4, device=device, requires_grad=True)\n"
        "Scale.apply(a, torch.ones(4)).sum().backward()\n",
        "saved", "function-context", "saved",
    ),
    "model known to no frame": (
        "class Model(nn.Linear):\n    pass\ndef make():\n    net = Model(4, 4)\n    return net.forward\nmake()(x)\n",
        "Model.weight", "parameter", None,
    ),
    "behind a decorator": (
        "def logged(f):\n"
        "    def wrapper(*args, **kwargs):\n"
        "        return f(*args, **kwargs)\n"
        "    return wrapper\n"
        "class Engine:\n"
        "    def __init__(self):\n"
        "        self.cache = torch.ones(8)\n"
        "    @logged\n"
        "    def step(self, x, n):\n"
        "        return x + self.cache[:n]\n"
        "Engine().step(x, 4)\n",
        "self.cache", "object-attribute", "self.cache[:n]",
    ),
    "layer without a name": ("nn.Linear(4, 3)(x)\n", "nn.Linear(4, 3).weight", "parameter", None),
    "part of a model without a name": (
        "def make():\n    return nn.Sequential(nn.ReLU(), nn.Linear(4, 3))\nmake()(x)\n",
        "make()[1].weight", "parameter", None,
    ),
    "long expression for a model": (
        "nn.Sequential(nn.ReLU(), nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 4))(x)\n",
        "nn.Sequential(…)[1].weight", "parameter", None,
    ),
    "multi-line": ("y = torch.ones(2, 4)\nz = (\n    x\n    + y\n)\n", "y", "variable", "y"),
    "umlauts before it": ("größe = torch.ones(2, 4)\ns = 'äöü', x + größe\n", "größe", "variable", "größe"),
}  # fmt: skip
