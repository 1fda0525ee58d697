"""What programs do with device tensors besides computing: saving, copying, autocast, hooks, scripting, defaults."""

import copy
import io
import pickle

import pytest
import torch
from simulated import simulated


def saved(value, **options):
    buffer = io.BytesIO()
    torch.save(value, buffer, **options)
    buffer.seek(0)
    return buffer


@simulated(devices=2)
def test_save_and_load():
    x = torch.arange(6.0, device="cuda:1").view(2, 3)
    for options in ({}, {"_use_new_zipfile_serialization": False}):
        there = torch.load(saved({"x": x, "t": x.t(), "p": torch.nn.Parameter(x)}, **options))
        assert there["x"].device == x.device and torch.equal(there["x"], x) and there["t"].stride() == (1, 3)
        assert there["x"].data_ptr() == there["t"].data_ptr(), "shared storage stays shared"
        assert isinstance(there["p"], torch.nn.Parameter)
        assert torch.load(saved(x, **options), map_location="cpu").device.type == "cpu"
        assert torch.load(saved(x, **options), map_location="cuda:0").get_device() == 0
        assert torch.load(saved(x, **options), map_location={"cuda:1": "cuda:0"}).get_device() == 0
    assert torch.load(saved(torch.ones(2)), map_location="cuda").is_cuda


def test_load_of_a_device_that_is_not_there(program, tmp_path):
    path = tmp_path / "x.pt"
    program.run_source(f"import torch; torch.save(torch.ones(2, device='cuda:3'), {str(path)!r})", simulate=4).ok()
    result = program.run_source(f"import torch; torch.load({str(path)!r})", simulate=2)
    assert (
        result.code == 1
        and "Attempting to deserialize object on CUDA device 3 but torch.cuda.device_count() is 2" in result.stderr
    ), result.describe()
    result = program.run_source(f"import torch; torch.load({str(path)!r})")
    assert result.code == 1 and "torch.cuda.is_available() is False" in result.stderr, result.describe()


@simulated(devices=2)
def test_deepcopy_and_pickle():
    x = torch.arange(4.0, device="cuda:1", requires_grad=True)
    for twin in (copy.deepcopy(x), pickle.loads(pickle.dumps(x)), copy.copy(x)):
        assert twin.device == x.device and torch.equal(twin, x) and twin.requires_grad
    assert copy.deepcopy(x).data_ptr() != x.data_ptr()
    model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.BatchNorm1d(2)).to("cuda:1")
    assert {str(p.device) for p in copy.deepcopy(model).state_dict().values()} == {"cuda:1"}
    assert torch.cuda.FloatTensor([1.0]).storage().device.type == "cuda"


@simulated(devices=1)
def test_autocast():
    x = torch.ones(4, 4, device="cuda")
    for dtype in (torch.float16, torch.bfloat16):
        with torch.autocast("cuda", dtype=dtype):
            assert (x @ x).dtype == dtype and torch.nn.functional.linear(x, x).dtype == dtype
            assert (x @ x).softmax(-1).dtype == torch.float32 and (x + x).dtype == torch.float32
            assert torch.nn.functional.conv2d(x.view(1, 1, 4, 4), x.view(1, 1, 4, 4)).dtype == dtype
            assert (torch.ones(2, 2) @ torch.ones(2, 2)).dtype == torch.float32, "the CPU has an autocast of its own"
    with torch.cuda.amp.autocast():
        assert (x @ x).dtype == torch.float16 and torch.is_autocast_enabled()
    assert (x @ x).dtype == torch.float32
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert (x @ x).dtype == torch.float32
    with torch.autocast("cuda"), pytest.raises(RuntimeError, match="unsafe to autocast"):
        torch.nn.functional.binary_cross_entropy(x.sigmoid(), x)


@simulated(devices=1)
def test_grad_scaler():
    parameter = torch.nn.Parameter(torch.ones(3, device="cuda"))
    optimizer = torch.optim.SGD([parameter], lr=0.5)
    scaler = torch.amp.GradScaler("cuda", init_scale=8.0, growth_interval=1)
    scaler.scale(parameter.sum()).backward()
    assert parameter.grad.tolist() == [8.0] * 3
    scaler.step(optimizer)
    scaler.update()
    assert parameter.tolist() == [0.5] * 3 and scaler.get_scale() == 16.0
    parameter.grad = torch.tensor([1.0, float("nan"), 1.0], device="cuda")
    scaler.step(optimizer)
    scaler.update()
    assert parameter.tolist() == [0.5] * 3 and scaler.get_scale() == 8.0


@simulated(devices=1)
def test_default_device_and_tensor_types():
    with torch.device("cuda"):
        assert torch.ones(2).is_cuda and torch.nn.Linear(2, 2).weight.is_cuda and torch.tensor(1).is_cuda
    torch.set_default_device("cuda")
    assert torch.arange(3).is_cuda and torch.get_default_device().type == "cuda"
    torch.set_default_device("cpu")
    kinds = {
        "Float": torch.float32,
        "Double": torch.float64,
        "Half": torch.float16,
        "BFloat16": torch.bfloat16,
        "Long": torch.int64,
        "Int": torch.int32,
        "Short": torch.int16,
        "Byte": torch.uint8,
        "Char": torch.int8,
        "Bool": torch.bool,
    }
    for kind, dtype in kinds.items():
        cls = getattr(torch.cuda, f"{kind}Tensor")
        x = cls([1, 0])
        assert (
            x.dtype == dtype and x.is_cuda and x.tolist() == [1, 0] and cls(2, 3).shape == (2, 3) and cls().numel() == 0
        )
        assert isinstance(x, cls) and not isinstance(x.cpu(), cls)
        assert torch.ones(2).type(cls).dtype == dtype and torch.ones(2).type(f"torch.cuda.{kind}Tensor").is_cuda
        assert x.type() == f"torch.cuda.{kind}Tensor"


@simulated(devices=1)
def test_hooks_see_device_tensors():
    seen = []
    layer = torch.nn.Linear(2, 2).cuda()
    layer.register_forward_hook(lambda m, a, o: seen.append(o.device.type))
    layer.register_full_backward_hook(lambda m, i, o: seen.append(o[0].device.type))
    layer.weight.register_post_accumulate_grad_hook(lambda p: seen.append(p.grad.device.type))
    x = torch.ones(1, 2, device="cuda", requires_grad=True)
    x.register_hook(lambda g: seen.append(g.device.type))
    layer(x).sum().backward()
    assert seen == ["cuda"] * 4


@simulated(devices=1)
def test_modes_see_device_tensors():
    from torch.overrides import TorchFunctionMode
    from torch.utils._python_dispatch import TorchDispatchMode

    class Dispatch(TorchDispatchMode):
        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            seen.append(str(function))
            return function(*args, **(kwargs or {}))

    class Function(TorchFunctionMode):
        def __torch_function__(self, function, types, args=(), kwargs=None):
            called.append(function.__name__)
            return function(*args, **(kwargs or {}))

    seen, called = [], []
    with Dispatch(), Function():
        y = torch.ones(2, device="cuda") + 1
    assert "aten.add.Tensor" in seen and "ones" in called and y.is_cuda


@simulated(devices=1)
def test_fake_tensors_and_meta():
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode():
        x = torch.ones(1000, 1000, device="cuda") @ torch.ones(1000, 1000, device="cuda")
        assert x.device.type == "cuda" and x.shape == (1000, 1000)
    assert torch.cuda.memory_allocated() == 0
    assert torch.ones(2, device="cuda").to("meta").is_meta
    with pytest.raises((RuntimeError, NotImplementedError), match="meta"):
        torch.ones(2, device="meta").cuda()


@simulated(devices=2)
def test_comm_and_replicas():
    module = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.BatchNorm1d(2)).cuda()
    replicas = torch.nn.parallel.replicate(module, [0, 1])
    assert [r[0].weight.get_device() for r in replicas] == [0, 1]
    pieces = torch.nn.parallel.scatter({"x": torch.ones(4, 2, device="cuda"), "n": 3}, [0, 1])
    assert [p["x"].get_device() for p in pieces] == [0, 1] and pieces[1]["n"] == 3
    outputs = torch.nn.parallel.parallel_apply(replicas, [(p["x"],) for p in pieces])
    gathered = torch.nn.parallel.gather(outputs, 1)
    assert gathered.shape == (4, 2) and gathered.get_device() == 1
    gathered.sum().backward()
    assert module[0].weight.grad.get_device() == 0
    with pytest.raises(RuntimeError):
        torch.nn.DataParallel(module.to("cuda:1"))(torch.ones(4, 2))


@simulated(devices=1)
def test_errors_of_the_program_keep_their_words():
    for expression, words in [
        (
            "torch.ones(2, 3, device='cuda') @ torch.ones(2, 3, device='cuda')",
            "mat1 and mat2 shapes cannot be multiplied",
        ),
        ("torch.ones(2, device='cuda') + torch.ones(3, device='cuda')", "must match the size of tensor b"),
        ("torch.ones(2, device='cuda').view(3)", "is invalid for input of size 2"),
        ("torch.ones(2, device='cuda', requires_grad=True).add_(1)", "leaf Variable that requires grad"),
        ("torch.ones(2, device='cuda').numpy()", "can't convert cuda:0 device type tensor to numpy"),
        ("torch.linalg.cholesky(-torch.eye(2, device='cuda'))", "not positive-definite"),
        ("torch.ones(2, device='cuda')[5]", "out of bounds"),
    ]:
        with pytest.raises((RuntimeError, TypeError, IndexError), match=words):
            eval(expression)
