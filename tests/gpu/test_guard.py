"""guard(): PyTorch's own errors, from whatever raised them, carry the finding."""

import textwrap

import pytest

CASES = {
    "batch": ("m = nn.Linear(3, 3).to(dev); x = torch.randn(2, 3); m(x)", "x"),
    "factory": ("h = torch.randn(2, 3, device=dev); h + torch.arange(3)", "torch.arange(3)"),
    "loss_weight": (
        "c = nn.CrossEntropyLoss(weight=torch.ones(3)); c(torch.randn(2, 3, device=dev), torch.tensor([0, 1], device=dev))",
        "c.weight",
    ),
    "host_access": ("t = torch.ones(2, device=dev); t.numpy()", "t"),
    "index": ("t = torch.randn(5); i = torch.tensor([0], device=dev); t[i]", "i"),
    "list": ("a, b = torch.ones(2, device=dev), torch.ones(2); torch.cat([a, b])", "b"),
    "in_place": ("acc = torch.zeros(3); acc += torch.ones(3, device=dev)", "acc"),
    "embedding": ("e = nn.Embedding(5, 4).to(dev); ids = torch.tensor([1, 2]); e(ids)", "ids"),
    "convolution": ("c = nn.Conv2d(1, 1, 1).to(dev); image = torch.randn(1, 1, 2, 2); c(image)", "image"),
    "lstm_state": (
        "n = nn.LSTM(4, 4).to(dev); h = torch.zeros(1, 1, 4); c = h.to(dev); n(torch.randn(3, 1, 4, device=dev), (h, c))",
        "h",
    ),
    "attention": (
        "m = nn.MultiheadAttention(4, 2).to(dev); q = torch.randn(3, 1, 4, device=dev); k = torch.randn(3, 1, 4); m(q, k, k)",
        "k",
    ),
}


@pytest.mark.parametrize("history", [False, True])
@pytest.mark.parametrize("case", CASES)
def test_a_caught_error_has_its_finding(program, case, history):
    call, name = CASES[case]
    text = f"""
        import locus, torch, traceback
        from torch import nn
        locus.guard(history={history})
        dev = torch.device("cuda")
        def attempt():
            {call}
        try:
            attempt()
        except (RuntimeError, TypeError) as error:
            print(error.finding.culprit["name"], error.finding.cause["line"])
            assert error.finding.text in "".join(traceback.format_exception(error))
        """
    if case == "index" and history:
        name = "t"  # made without a device, where the index was put on the card
    assert program.run_source(textwrap.dedent(text)).ok().stdout == f"{name} 7\n"


def test_an_uncaught_error_ends_with_the_finding(program):
    text = """
        import locus, torch
        locus.guard()
        class Net(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.fc = torch.nn.Linear(2, 2)
                self.scale = torch.ones(2)
            def forward(self, x):
                return self.fc(x) * self.scale
        net = Net().cuda()
        net(torch.ones(1, 2, device="cuda"))
        """
    result = program.run_source(textwrap.dedent(text))
    assert result.code == 1
    assert "RuntimeError: Expected all tensors" in result.stderr
    assert "error[LOC003]" in result.stderr.partition("RuntimeError")[2]
    assert 'self.register_buffer("scale", torch.ones(2)' in result.stderr


def test_other_errors_are_left_alone(program):
    text = """
        import locus, torch
        locus.guard(history=True)
        try:
            torch.ones(2, device="cuda") + torch.ones(3, device="cuda")
        except RuntimeError as error:
            print(hasattr(error, "finding"), getattr(error, "__notes__", None))
        """
    assert program.run_source(textwrap.dedent(text)).ok().stdout == "False None\n"
