"""Devices: how many, which one is current, what they say of themselves, and the errors for one that isn't there."""

import builtins

import pytest
import torch
from simulated import simulated


@pytest.mark.parametrize("devices", [1, 2, 7, 64])
def test_as_many_devices_as_asked_for(program, devices):
    result = program.run_source(
        """
import torch
n = torch.cuda.device_count()
tensors = [torch.full((2,), float(i), device=f"cuda:{i}") for i in range(n)]
assert [t.get_device() for t in tensors] == list(range(n))
print(n, sum(t.to("cuda:0").sum().item() for t in tensors), sum(t.cpu().sum().item() for t in tensors))
""",
        simulate=devices,
    ).ok()
    total = float(devices * (devices - 1))
    assert result.stdout == f"{devices} {total} {total}\n"


@simulated(devices=3)
def test_current_device():
    assert torch.cuda.current_device() == 0
    assert torch.ones(1, device="cuda").device == torch.device("cuda:0")
    with torch.cuda.device(2):
        assert torch.cuda.current_device() == 2 and torch.ones(1, device="cuda").get_device() == 2
        with torch.cuda.device("cuda:1"):
            assert torch.ones(1).cuda().get_device() == 1
        assert torch.cuda.current_device() == 2
    assert torch.cuda.current_device() == 0
    with pytest.raises(KeyError), torch.cuda.device(1):
        raise KeyError
    assert torch.cuda.current_device() == 0
    torch.cuda.set_device(1)
    assert torch.ones(1, device="cuda").get_device() == 1
    with torch.cuda.device_of(torch.ones(1, device="cuda:2")):
        assert torch.cuda.current_device() == 2
    with torch.cuda.device(None), torch.cuda.device(-1):
        assert torch.cuda.current_device() == 1
    # Results go where the operands are, whatever is current.
    assert (torch.ones(2, device="cuda:2") * 2).get_device() == 2
    assert torch.zeros_like(torch.ones(2, device="cuda:0")).get_device() == 0


@simulated(devices=2, memory="40GiB")
def test_properties():
    properties = torch.cuda.get_device_properties(1)
    assert properties.total_memory == 40 << 30 == torch.cuda.mem_get_info(1)[1]
    assert properties.name == torch.cuda.get_device_name(1) and properties.name
    assert (properties.major, properties.minor) == torch.cuda.get_device_capability("cuda:1") >= (7, 0)
    assert properties.multi_processor_count > 0 and "total_memory" in repr(properties)
    assert torch.cuda.get_device_name() == torch.cuda.get_device_name(torch.device("cuda:0"))
    assert torch.cuda.is_bf16_supported()
    assert torch.cuda.can_device_access_peer(0, 1) in (True, False)


@simulated(devices=2)
@pytest.mark.parametrize(
    "expression",
    [
        "torch.ones(1, device='cuda:2')",
        "torch.ones(1).cuda(5)",
        "torch.ones(1).to('cuda:3')",
        "torch.cuda.set_device(2)",
        "torch.nn.Linear(1, 1).to('cuda:2')",
        "torch.ones(1, device='cuda:0').to('cuda:2')",
        "torch.empty_like(torch.ones(1), device='cuda:7')",
    ],
)
def test_a_device_that_is_not_there(expression):
    with pytest.raises(RuntimeError) as caught:
        eval(expression)
    assert str(caught.value).splitlines()[0] == "CUDA error: invalid device ordinal"
    assert isinstance(caught.value, getattr(torch, "AcceleratorError", RuntimeError))
    assert torch.ones(1, device="cuda:1").item() == 1 and torch.cuda.current_device() == 0


@simulated(devices=2)
@pytest.mark.parametrize(
    "expression, error, words",
    [
        ("torch.cuda.get_device_properties(2)", "AssertionError", "Invalid device id"),
        ("torch.cuda.get_device_name(9)", "AssertionError", "Invalid device id"),
        ("torch.device('cuda:-2')", "RuntimeError", "evice"),
        ("torch.cuda.synchronize('cpu')", "ValueError", "Expected a cuda device"),
        ("torch.cuda.memory_allocated('cpu')", "ValueError", "Expected a cuda device"),
    ],
)
def test_bad_devices_are_refused_as_pytorch_does(expression, error, words):
    torch.cuda.init()  # before it, a card's counters answer 0 to anything
    with pytest.raises(getattr(builtins, error), match=words):
        eval(expression)


@simulated(devices=2)
def test_tensors_know_where_they_are():
    x = torch.ones(2, 3, device="cuda:1")
    assert (
        x.is_cuda
        and not x.is_cpu
        and x.device == torch.device("cuda", 1)
        and x.device.type == "cuda"
        and x.device.index == 1
    )
    assert x.get_device() == 1 and x.untyped_storage().device == x.device and x.layout == torch.strided
    assert x.type() == "torch.cuda.FloatTensor" and x.cpu().type() == "torch.FloatTensor"
    assert x.to("cuda:1") is x and x.cuda(1) is x and x.to("cuda:0") is not x
    assert x.to("cuda:1", copy=True) is not x
    assert not x.cpu().is_cuda and x.cpu().cpu().device == torch.device("cpu")
    assert x.to(torch.ones(1, device="cuda:0")).get_device() == 0
    assert x.to("cpu", torch.float64).dtype == torch.float64
    assert x.data_ptr() != 0 and x.data_ptr() % 512 == 0
    assert x.new_zeros(1).device == x.device and torch.device("cuda") != torch.device("cuda:0")


@simulated(devices=2)
def test_copies_between_devices_keep_values_and_gradients():
    host = torch.arange(6.0).view(2, 3)
    for there in (host.to("cuda:0"), host.cuda(1), host.to("cuda:0").to("cuda:1"), host.t().to("cuda").t()):
        assert torch.equal(there.cpu(), host)
    target = torch.empty(3, 2, device="cuda:1").t()
    target.copy_(host)
    assert torch.equal(target.cpu(), host) and target.stride() == (1, 2)
    half = torch.empty(2, 3, dtype=torch.float16, device="cuda:0").copy_(target)
    assert half.dtype == torch.float16 and half.tolist() == host.tolist()
    x = host.clone().requires_grad_()
    (x.to("cuda:0").square().to("cuda:1").sum() * 2).backward()
    assert x.grad.device.type == "cpu" and torch.equal(x.grad, 4 * host)


def test_simulate_after_backward_is_refused(program):
    """The first backward sizes the autograd engine's queues; a device that comes later would have none."""
    result = program.run_source("""
import torch, locus
(torch.ones(1, requires_grad=True) * 2).backward()
try:
    locus.simulate(devices=2)
except Exception as error:
    print(type(error).__name__, error)
else:
    # Where it is allowed, it has to work, in backward too.
    x = torch.ones(2, device="cuda:1", requires_grad=True)
    (x * 3).sum().backward()
    print("allowed", x.grad.tolist())
""").ok()
    refused = result.stdout.startswith("UsageError ") and "backward" in result.stdout
    assert refused or result.stdout == "allowed [3.0, 3.0]\n", result.describe()


def test_a_machine_stays(program):
    result = program.run_source("""
import torch, locus
locus.simulate(devices=2)
locus.simulate(devices=2)
try:
    locus.simulate(devices=3)
except locus.errors.UsageError as error:
    print(torch.cuda.device_count(), "devices=2" in str(error) and "devices=3" in str(error))
""").ok()
    assert result.stdout == "2 True\n"


@simulated(devices=0)
def test_no_devices():
    assert not torch.cuda.is_available() and torch.cuda.device_count() == 0
    assert not torch.accelerator.is_available()
    with pytest.raises((RuntimeError, AssertionError)):
        torch.ones(1).cuda()
