"""Operands on different devices: refused where a card refuses, allowed where a card allows, in PyTorch's words."""

import re

import pytest
import torch
from simulated import simulated

REFUSED = {
    "add": "a + b",
    "in place": "a.add_(b)",
    "matmul": "a.view(2, 2) @ b.view(2, 2)",
    "cat": "torch.cat([a, b])",
    "stack": "torch.stack([b, a])",
    "where": "torch.where(a > 0, a, b)",
    "mse": "F.mse_loss(a, b)",
    "linear": "F.linear(a, b.view(2, 2).repeat(1, 2))",
    "addmm": "torch.addmm(b.view(2, 2), a.view(2, 2), a.view(2, 2))",
    "bmm": "torch.bmm(a.view(1, 2, 2), b.view(1, 2, 2))",
    "cross entropy": "F.cross_entropy(a.view(2, 2), torch.zeros(2, dtype=torch.long, device=b.device))",
    "embedding": "F.embedding(torch.zeros(2, dtype=torch.long, device=b.device), a.view(2, 2))",
    "layer norm": "F.layer_norm(a, (4,), b, b)",
    "gather": "a.gather(0, torch.zeros(2, dtype=torch.long, device=b.device))",
    "masked fill": "a.masked_fill(b > 0, 1.0)",
    "out": "torch.add(a, a, out=b)",
    "einsum": "torch.einsum('i,i->', a, b)",
    "lerp": "torch.lerp(a, b, 0.5)",
    "bce": "F.binary_cross_entropy(a.sigmoid(), b.sigmoid())",
    "scatter": "a.scatter(0, torch.zeros(2, dtype=torch.long, device=b.device), 1.0)",
    "index select": "a.index_select(0, torch.zeros(2, dtype=torch.long, device=b.device))",
    "dot": "torch.dot(a, b)",
}


def assert_all_refused(other):
    import torch.nn.functional as F

    a, b = torch.ones(4, device="cuda:0"), torch.ones(4, device=other)
    wrong = []
    for name, expression in REFUSED.items():
        try:
            wrong.append(f"{name}: gave {eval(expression, {'torch': torch, 'F': F, 'a': a, 'b': b})!r}")
        except RuntimeError as error:
            # A few operators (masked_fill, indexing) have words of their own.
            if not re.search(r"[Ee]xpected .* to be on (the )?same device|indices should be either on", str(error)):
                wrong.append(f"{name}: {error}")
    assert not wrong, "\n".join(wrong)


@simulated(devices=1)
def test_host_and_device_are_refused():
    assert_all_refused("cpu")


@simulated(devices=2)
def test_two_devices_are_refused():
    assert_all_refused("cuda:1")


@simulated(devices=2)
def test_the_two_devices_are_named():
    with pytest.raises(RuntimeError, match="Expected all tensors to be on the same device") as caught:
        torch.ones(2, device="cuda:1") * torch.ones(2)
    assert "cuda:1" in str(caught.value) and "cpu" in str(caught.value)
    with pytest.raises(RuntimeError, match=r"should be the same|same device"):
        torch.nn.Conv2d(1, 1, 3)(torch.ones(1, 1, 4, 4, device="cuda:0"))


@simulated(devices=2)
def test_what_may_mix():
    a, index = torch.arange(4.0, device="cuda:1"), torch.tensor([3, 0])
    scalar = torch.tensor(2.0)
    assert (a + scalar).tolist() == [2, 3, 4, 5] == (scalar + a).tolist()
    assert (a + scalar).get_device() == (scalar * a).get_device() == 1
    assert a[index].tolist() == [3, 0] and a[index].get_device() == 1
    a[index] = 9.0
    assert a.tolist() == [9, 1, 2, 9]
    a[torch.tensor([True, False, False, False])] = scalar
    assert a[0].item() == 2
    assert torch.where(a > 5, a, scalar).get_device() == 1
    a += scalar
    a[0] = torch.tensor(5.0)
    a.copy_(torch.zeros(4))
    assert a.sum().item() == 0
    assert torch.clamp(a, min=1.0).tolist() == [1] * 4
    assert torch.nn.functional.dropout(a, 0.0).get_device() == 1
    with pytest.raises(RuntimeError, match="indices should be either on cpu or on the same device"):
        index_on_device = torch.tensor([0], device="cuda:1")
        torch.ones(2)[index_on_device]


@simulated(devices=2)
def test_a_device_scalar_does_not_mix():
    with pytest.raises(RuntimeError, match="Expected all tensors to be on the same device"):
        torch.ones(3, device="cuda:0") + torch.tensor(1.0, device="cuda:1")
    with pytest.raises(RuntimeError, match="Expected all tensors to be on the same device"):
        torch.ones(3) + torch.tensor(1.0, device="cuda:1")


@simulated(devices=2)
def test_after_a_refusal_the_program_goes_on():
    layer = torch.nn.Linear(2, 2).to("cuda:1")
    for _ in range(3):
        with pytest.raises(RuntimeError):
            layer(torch.ones(1, 2))
    layer(torch.ones(1, 2, device="cuda:1")).sum().backward()
    assert layer.weight.grad.get_device() == 1


@simulated(devices=2)
def test_optimizer_state_on_the_wrong_device():
    parameter = torch.nn.Parameter(torch.ones(2))
    optimizer = torch.optim.Adam([parameter])
    parameter.sum().backward()
    optimizer.step()
    parameter.data = parameter.data.cuda()
    parameter.grad = None
    parameter.sum().backward()
    with pytest.raises(RuntimeError, match="same device"):
        optimizer.step()


@simulated(devices=2)
def test_gradients_live_with_their_tensors():
    x = torch.ones(2, device="cuda:0", requires_grad=True)
    with pytest.raises(RuntimeError, match="device"):
        x.grad = torch.ones(2)
    with pytest.raises(RuntimeError, match="device"):
        (x * 2).backward(torch.ones(2))
