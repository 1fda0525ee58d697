"""Programs with one mistake each, and the edit that fixes it; for test_source.py."""

# name of the test: program, edit kind, old line (or "" for an insertion), new text. The edited program must be right.
EDITS = {
    "register_buffer": (
        """
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.pe = torch.zeros(4)    # table
            def forward(self, x):
                return x + self.pe
        net = Net().cuda()
        net(x)
        """,
        "register_buffer",
        "        self.pe = torch.zeros(4)    # table",
        '        self.register_buffer("pe", torch.zeros(4), persistent=False)    # table',
    ),
    "register_buffer over lines": (
        """
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.pe: torch.Tensor = torch.zeros(
                    4,  # wide
                )
            def forward(self, x):
                return x + self.pe
        net = Net().cuda()
        net(x)
        """,
        "register_buffer",
        "        self.pe: torch.Tensor = torch.zeros(\n            4,  # wide\n        )",
        '        self.register_buffer("pe", torch.zeros(\n            4,  # wide\n        ), persistent=False)',
    ),
    "module_list": (
        """
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.layers = [nn.Linear(4, 4) for _ in range(2)]  # two
            def forward(self, x):
                for layer in self.layers:
                    x = layer(x)
                return x
        net = Net().to("cuda:0")
        net(x)
        """,
        "module_list",
        "        self.layers = [nn.Linear(4, 4) for _ in range(2)]  # two",
        "        self.layers = nn.ModuleList([nn.Linear(4, 4) for _ in range(2)])  # two",
    ),
    "module_list for a dict": (
        """
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.heads={'a':nn.Linear(4, 4)}
            def forward(self, x):
                return self.heads['a'](x)
        net = Net().to("cuda:0")
        net(x)
        """,
        "module_list",
        "        self.heads={'a':nn.Linear(4, 4)}",
        "        self.heads=nn.ModuleDict({'a':nn.Linear(4, 4)})",
    ),
    "factory_device": (
        """
        def use(x):
            t = torch.arange(x.size(1))   # positions
            return x + t
        use(x)
        """,
        "factory_device",
        "    t = torch.arange(x.size(1))   # positions",
        "    t = torch.arange(x.size(1), device=x.device)   # positions",
    ),
    "factory_device with a variable": (
        """
        def use(x, device):
            t = torch.full((4,), 2.0, )
            return x + t
        use(x, torch.device("cuda:0"))
        """,
        "factory_device",
        "    t = torch.full((4,), 2.0, )",
        "    t = torch.full((4,), 2.0, device=device, )",
    ),
    "factory_device over lines": (
        """
        dev = "cuda"
        t = torch.zeros(
            4,
            dtype=torch.float32,  # exact
        )
        x + t
        """,
        "factory_device",
        "    dtype=torch.float32,  # exact",
        "    dtype=torch.float32, device=dev,  # exact",
    ),
    "factory_device that was there": (
        """
        t = torch.zeros(4, device="cpu")
        x + t
        """,
        "factory_device",
        't = torch.zeros(4, device="cpu")',
        "t = torch.zeros(4, device=x.device)",
    ),
    "factory_device for a bare call": (
        """
        t = torch.ones(())[None].expand(4)
        x + t
        """,
        "factory_device",
        "t = torch.ones(())[None].expand(4)",
        "t = torch.ones((), device=x.device)[None].expand(4)",
    ),
    "assign_to": (
        """
        device = torch.device("cuda:0")
        y = torch.ones(4)
        y.to(device)  # BUG
        x + y
        """,
        "assign_to",
        "y.to(device)  # BUG",
        "y = y.to(device)  # BUG",
    ),
    "assign_to an attribute": (
        """
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.pe = torch.zeros(4)
            def forward(self, x):
                self.pe.to(x.device)
                return x + self.pe
        net = Net()
        net(x)
        """,
        "assign_to",
        "        self.pe.to(x.device)",
        "        self.pe = self.pe.to(x.device)",
    ),
    "move_at_use": (
        """
        y = torch.ones(4)
        z = x +  y   # sum
        """,
        "move_at_use",
        "z = x +  y   # sum",
        "z = x +  y.to(x.device)   # sum",
    ),
    "move_at_use of an expression": (
        """
        y = torch.ones(4)
        z = x + -y
        """,
        "move_at_use",
        "z = x + -y",
        "z = x + (-y).to(x.device)",
    ),
    "move_at_use in parentheses": (
        """
        y = torch.ones(4)
        z = x + (y * 2) - 1
        """,
        "move_at_use",
        "z = x + (y * 2) - 1",
        "z = x + (y * 2).to(x.device) - 1",
    ),
    "move_at_use in a call": (
        """
        y = torch.ones(2, 4)
        z = F.mse_loss(
            x,
            y * 2,
        )
        """,
        "move_at_use",
        "    y * 2,",
        "    (y * 2).to(x.device),",
    ),
    "move_at_use after letters of more bytes": (
        """
        größe = torch.ones(4)
        z = "äöü", x + größe  # ß
        """,
        "move_at_use",
        'z = "äöü", x + größe  # ß',
        'z = "äöü", x + größe.to(x.device)  # ß',
    ),
    "move_at_use in a method": (
        """
        class Trainer:
            def __init__(self):
                self.device = "cuda:0"
                self.mean = torch.ones(4)
            def norm(self, a):
                return a - self.mean
        Trainer().norm(x)
        """,
        "move_at_use",
        "        return a - self.mean",
        "        return a - self.mean.to(self.device)",
    ),
    "move_at_use in cat": (
        """
        y = torch.ones(2, 4)
        torch.cat([x, y], dim=0)
        """,
        "move_at_use",
        "torch.cat([x, y], dim=0)",
        "torch.cat([x, y.to(x.device)], dim=0)",
    ),
    "move_batch": (
        """
        device = "cuda:0"
        loader = [(torch.ones(2, 4), torch.zeros(2, dtype=torch.long))]
        criterion = nn.CrossEntropyLoss()
        for inputs, targets in loader:
            inputs = inputs.to(device, non_blocking=True)  # copy
            criterion(inputs, targets)
        """,
        "move_batch",
        "",
        "    targets = targets.to(device, non_blocking=True)",
    ),
    "move_batch first in the loop": (
        """
        loader = [(torch.ones(2, 4), torch.zeros(2, dtype=torch.long))]
        criterion = nn.CrossEntropyLoss()
        for inputs, targets in loader:
            # the step
            criterion(inputs.cuda(), targets)
        """,
        "move_batch",
        "",
        '    targets = targets.to("cuda:0")',
    ),
    "move_batch of a dict": (
        """
        device = torch.device("cuda", 0)
        loader = [{"ids": x, "mask": torch.ones(2, 4)}]
        for batch in loader:
            ids = batch["ids"]
            ids * batch["mask"]
        """,
        "move_batch",
        "",
        '    batch["mask"] = batch["mask"].to(device)',
    ),
    "move_batch where it is unpacked": (
        """
        device = "cuda"
        loader = [(x, torch.ones(2, 4))]
        for batch in loader:
            a, b = batch
            a + b
        """,
        "move_batch",
        "",
        "    b = b.to(device)",
    ),
    "move_module": (
        """
        def main():
            device = torch.device("cuda")
            model = nn.Linear(4, 4)  # small
            model(x)
        main()
        """,
        "move_module",
        "    model = nn.Linear(4, 4)  # small",
        "    model = nn.Linear(4, 4).to(device)  # small",
    ),
    "move_module of a trainer": (
        """
        class Trainer:
            def __init__(self, device):
                self.model = nn.Linear(
                    4, 4
                )
            def fit(self):
                self.model(x)
        Trainer("cuda:0").fit()
        """,
        "move_module",
        "        )",
        "        ).to(device)",
    ),
    "move_weight": (
        """
        criterion = nn.CrossEntropyLoss(weight=torch.ones(4))
        criterion(x, torch.zeros(2, dtype=torch.long, device="cuda:0"))
        """,
        "move_weight",
        "criterion = nn.CrossEntropyLoss(weight=torch.ones(4))",
        'criterion = nn.CrossEntropyLoss(weight=torch.ones(4)).to("cuda:0")',
    ),
    "map_location": (
        """
        import io
        device = torch.device("cuda:0")
        file = io.BytesIO()
        torch.save(torch.ones(4), file)
        file.seek(0)
        y = torch.load(file)
        x + y
        """,
        "map_location",
        "y = torch.load(file)",
        "y = torch.load(file, map_location=device)",
    ),
    "map_location that was there": (
        """
        import io
        file = io.BytesIO()
        torch.save(torch.ones(4), file)
        file.seek(0)
        y = torch.load(file, map_location="cpu")
        x + y
        """,
        "map_location",
        'y = torch.load(file, map_location="cpu")',
        "y = torch.load(file, map_location=x.device)",
    ),
    "cpu_lengths": (
        """
        lengths = torch.tensor([4, 3], device="cuda:0")
        torch._C._VariableFunctions._pack_padded_sequence(x, lengths, True)
        """,
        "cpu_lengths",
        "torch._C._VariableFunctions._pack_padded_sequence(x, lengths, True)",
        "torch._C._VariableFunctions._pack_padded_sequence(x, lengths.cpu(), True)",
    ),
    "optimizer_state": (
        """
        net = nn.Linear(4, 4)
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
        net(torch.ones(1, 4)).sum().backward()
        optimizer.step()
        net.to("cuda:0")
        optimizer.step()
        """,
        "optimizer_state",
        "",
        "optimizer.load_state_dict(optimizer.state_dict())",
    ),
}

HANDOFFS = {
    "handoff": (
        """
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.a = nn.Linear(4, 4).to("cuda:0")
                self.b = nn.Linear(4, 4).to("cuda:1")
            def forward(self, x):
                h = self.a(x)
                return self.b(h)  # next
        net = Net()
        net(x)
        """,
        "        return self.b(h)  # next",
        '        return self.b(h.to("cuda:1"))  # next',
    ),
    "handoff with names": (
        """
        FIRST, SECOND = torch.device("cuda:0"), torch.device("cuda:1")
        class Stage(nn.Module):
            def __init__(self):
                super().__init__()
                self.fc = nn.Linear(4, 4)
            def forward(self, x):
                return self.fc(x)
        second = Stage().to(SECOND)
        second(x * 2)
        second(torch.relu(x))
        """,
        "second(x * 2)",
        "second((x * 2).to(SECOND))",
    ),
}
