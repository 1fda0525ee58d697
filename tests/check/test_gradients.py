"""Gradients that autograd refuses by itself: a finding each, at the right line, and the program goes on."""

from __future__ import annotations

import textwrap

import pytest
from checker import check_source

PREPARED = """\
import torch
from torch import nn
torch.manual_seed(0)
net = nn.Linear(3, 2).cuda()
x = torch.ones(4, 3, device="cuda")
"""
OFFSET = PREPARED.count("\n")

# The program, (line of the cause, line of the use, culprit), all lines counted from the program's own first.
REFUSED = {
    "backward": ("v = torch.ones(4, 2)\nnet(x).backward(v)", (1, 2, "v")),
    "backward by keyword": ("net(x).backward(gradient=torch.ones(4, 2))", (1, 1, "torch.ones(4, 2)")),
    "backward, moved there on purpose": ("v = torch.ones(4, 2, device='cpu')\nnet(x).backward(v)", (2, 2, "v")),
    "backward from the other card": ("v = torch.ones(4, 2, device='cuda:1')\nnet(x).backward(v)", (2, 2, "v")),
    "autograd.backward": (
        "good, bad = torch.ones(4, 2, device='cuda'), torch.ones(4, 2)\n"
        "torch.autograd.backward([net(x), net(x)], [good, bad])",
        (1, 2, "bad"),
    ),
    "autograd.grad": (
        "from torch.autograd import grad\ny = net(x)\ngrad(y, net.weight, grad_outputs=torch.ones(4, 2))",
        (3, 3, "torch.ones(4, 2)"),
    ),
    "assigned": ("g = torch.zeros(2, 3)\nnet.weight.grad = g", (1, 2, "g")),
    "assigned, from the host": (
        "net(x).sum().backward()\nhost = net.weight.grad.cpu()\nnet.weight.grad = host",
        (3, 3, "host"),
    ),
    "a hook on a tensor": (
        "def hook(grad):\n    return grad.cpu()\ny = net(x)\ny.register_hook(hook)\ny.sum().backward()",
        (2, 5, "grad.cpu()"),
    ),
    "a hook on a module": (
        "two = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 2)).cuda()\n"
        "def hook(module, grad_input, grad_output):\n    return (grad_input[0].cpu(),)\n"
        "two[1].register_full_backward_hook(hook)\ntwo(x).sum().backward()",
        (3, 5, "grad_input[0].cpu()"),
    ),
    "a custom function": (
        """\
        class Twice(torch.autograd.Function):
            @staticmethod
            def forward(ctx, a, times, b):
                return a * times + b
            @staticmethod
            def backward(ctx, grad):
                return torch.zeros(4, 2), None, grad
        loss = Twice.apply(net(x), 3, net(x)).sum()
        loss.backward()""",
        (7, 9, "torch.zeros(4, 2)"),
    ),
    "torch.func": (
        "from torch.func import vjp\n_, pull = vjp(lambda w: x @ w, torch.ones(3, 2, device='cuda'))\n"
        "v = torch.ones(4, 2)\npull(v)",
        (3, 4, "v"),
    ),
}

LEGAL = {
    "of one number": "net(x)[0, 0].backward(torch.tensor(1.0))",
    "where it belongs": "net(x).backward(torch.ones(4, 2, device='cuda'))",
    "none": "net.weight.grad = None\nnet(x).sum().backward()",
    "a hook that changes nothing": "y = net(x)\ny.register_hook(lambda g: None)\ny.sum().backward()",
    "a hook on the card": "y = net(x)\nh = y.register_hook(lambda g: g * 2)\ny.sum().backward()\nh.remove()",
    "a function with nothing to give": (
        "class F(torch.autograd.Function):\n    @staticmethod\n    def forward(ctx, a, b):\n        return a * 1\n"
        "    @staticmethod\n    def backward(ctx, g):\n        return g, torch.zeros(3)\n"
        "F.apply(net(x), torch.ones(3)).sum().backward()"
    ),
    "of a CPU tensor": "w = torch.ones(3, requires_grad=True)\nw.grad = torch.ones(3)\n(w * 2).backward(torch.ones(3))",
}


def source(text):
    return PREPARED + textwrap.dedent(text) + "\nprint('the end')\n"


@pytest.mark.parametrize("name", REFUSED)
def test_a_refused_gradient_is_one_finding(program, name):
    text, (cause, use, culprit) = REFUSED[name]
    checked = check_source(program, source(text))
    assert checked.stdout == "the end\n", checked.result.describe()
    (finding,) = checked.findings
    assert (finding["code"], finding["reason"], finding["severity"]) == ("LOC019", "gradient", "error")
    assert finding["cause"]["line"] - OFFSET == cause and finding["uses"][0]["line"] - OFFSET == use, finding
    assert culprit in (finding["culprit"]["name"], finding["culprit"]["expression"]), finding["culprit"]
    assert finding["culprit"]["expected_device"] == "cuda:0"


def test_without_a_check_pytorch_speaks(program):
    """Each by itself in one process: what PyTorch refuses without a check is what a check reports, and no more."""
    texts = {name: source(text) for name, (text, _) in REFUSED.items()}
    texts |= {name: source(text) for name, text in LEGAL.items()}
    run = (
        f"for name, text in {texts!r}.items():\n    try:\n        exec(text, {{}})\n"
        "    except RuntimeError:\n        print('refused', name)\n"
    )
    lines = program.run_source(run, simulate=2).ok().stdout.splitlines()
    assert lines == [f"refused {name}" for name in REFUSED] + ["the end"] * len(LEGAL)


def test_legal_gradients_are_none(program):
    text = "".join(f"print({name!r})\n{source(text)}" for name, text in LEGAL.items())
    checked = check_source(program, text)
    assert checked.stdout.count("the end") == len(LEGAL) and not checked.findings, checked.result.describe()


def test_who_means_to_catch_it_gets_it(program):
    text = "try:\n    net(x).backward(torch.ones(4, 2))\nexcept RuntimeError as error:\n    print(error)"
    checked = check_source(program, source(text))
    assert checked.stdout == "invalid gradient at index 0 - expected device cuda:0 but got cpu\nthe end\n"
    assert not checked.findings


def test_a_loop_is_one_finding_with_a_count(program):
    checked = check_source(program, source("for _ in range(7):\n    net.weight.grad = torch.zeros(2, 3)"))
    (finding,) = checked.findings
    assert finding["count"] == 7 and finding["uses"][0]["count"] == 7


def test_the_gradient_is_right(program):
    text = "v = torch.ones(4, 2)\nnet(x).backward(v)\nprint(net.weight.grad.device, net.weight.grad.tolist())"
    checked = check_source(program, source(text))
    assert checked.stdout.startswith("cuda:0 [[4.0, 4.0, 4.0], [4.0, 4.0, 4.0]]\n")


def test_the_forward_line_of_a_custom_function(program):
    checked = check_source(program, source(REFUSED["a custom function"][0]))
    (finding,) = checked.findings
    assert finding["in_backward"] and finding["forward"]["line"] - OFFSET == 8
