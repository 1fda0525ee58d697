"""locus.policy(): scopes, threads, backward, warnings."""

import pytest
from simulated import simulated

MIXED = "Expected all tensors to be on the same device"


def mix():
    """An addition of two devices; the result's device, or "raised"."""
    import torch

    try:
        return str((torch.ones(3, device="cuda") + torch.ones(3)).device)
    except RuntimeError as error:
        assert MIXED in str(error)
        return "raised"


def mix_in_backward():
    """The same in the backward pass of a custom function, on a thread of autograd's."""
    import threading

    import torch

    ran_on = []

    class Scale(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, grad):
            ran_on.append(threading.get_ident())
            return grad * torch.ones(3)

    x = torch.ones(3, device="cuda", requires_grad=True)
    try:
        Scale.apply(x).sum().backward()
    except RuntimeError as error:
        assert MIXED in str(error)
        return "raised"
    finally:
        assert ran_on != [threading.get_ident()], "autograd has a thread for each device"
    return str(x.grad.device)


@simulated(devices=2)
def test_scopes_nest():
    import torch

    import locus

    assert mix() == "raised"
    with locus.policy("move"):
        assert mix() == "cuda:0"
        with locus.policy("raise"):
            assert mix() == "raised" and mix_in_backward() == "raised"
            with locus.policy("collect"):
                for _ in range(1):  # what this test runs under would catch it, but not from inside a loop
                    assert (torch.ones(3, device="cuda") + torch.ones(3)).is_cuda
                assert mix() == "raised", "who means to catch the error gets it"
            assert mix() == "raised"
        assert mix() == "cuda:0" and mix_in_backward() == "cuda:0"
    assert mix() == "raised" and mix_in_backward() == "raised"
    try:
        with locus.policy("move"):
            raise KeyError
    except KeyError:
        assert mix() == "raised", "an exception leaves the scope too"


@simulated(devices=1)
def test_a_policy_can_be_kept_and_entered_again():
    import locus

    move = locus.policy("move")
    with move, locus.policy("raise"), move:
        assert mix() == "cuda:0"
    assert mix() == "raised"


@simulated(devices=1)
def test_a_decorated_function():
    import locus

    @locus.policy("move")
    def moving(depth):
        """Its words."""
        return moving(depth - 1) if depth else mix()

    assert moving(3) == "cuda:0" and mix() == "raised" and moving.__doc__ == "Its words."
    with pytest.raises(TypeError, match="can't decorate 'steps'"):

        @locus.policy("move")
        def steps():
            yield

    with pytest.raises(TypeError, match="can't decorate 'later'"):

        @locus.policy("move")
        async def later():
            pass


@simulated(devices=1)
def test_threads_inherit():
    import threading
    from concurrent.futures import ThreadPoolExecutor

    import locus

    def in_thread(function):
        got = []
        thread = threading.Thread(target=lambda: got.append(function()))
        thread.start()
        thread.join()
        return got[0]

    pool = ThreadPoolExecutor(1)
    assert pool.submit(mix).result() == "raised"
    with locus.policy("move"):
        assert in_thread(mix) == "cuda:0" and in_thread(lambda: in_thread(mix)) == "cuda:0"
        assert in_thread(mix_in_backward) == "cuda:0"
        assert pool.submit(mix).result() == "cuda:0", "the pool's thread is older than the scope; its work is not"
    assert in_thread(mix) == "raised" and pool.submit(mix).result() == "raised"

    inside, leave = threading.Event(), threading.Event()

    def hold():
        with locus.policy("move"):
            inside.set()
            leave.wait(10)
            return mix()

    held = pool.submit(hold)
    assert inside.wait(10)
    assert mix() == "raised", "another thread's scope is its own"
    leave.set()
    assert held.result() == "cuda:0"


@simulated(devices=2)
def test_data_parallel_inherits():
    import torch

    import locus

    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.w = torch.nn.Parameter(torch.ones(3))

        def forward(self, x):
            return x * self.w + torch.ones(3)

    net = torch.nn.DataParallel(Net().cuda())
    with locus.policy("move"):
        assert net(torch.ones(4, 3, device="cuda")).shape == (4, 3)
    with pytest.raises(RuntimeError, match=MIXED):
        net(torch.ones(4, 3, device="cuda"))


@simulated(devices=1)
def test_warn_says_each_cause_once():
    import warnings

    import torch

    import locus

    a = torch.ones(3, device="cuda")
    with warnings.catch_warnings(record=True) as caught, locus.policy("warn"):
        warnings.simplefilter("always")
        for _ in range(5):
            b = torch.ones(3)
            a + b
            a * b
        a - torch.zeros(3)
        with locus.policy("move"):
            a / torch.zeros(3)
    assert [w.category for w in caught] == [locus.PlacementWarning] * 2
    text = str(caught[0].message)
    assert text.startswith("error[LOC004]: expected all tensors to be on the same device, but add() got")
    assert "b = torch.ones(3, device=" in text and caught[0].filename == __file__
    with open(__file__) as file:
        assert file.readlines()[caught[0].lineno - 1].strip() == "a + b"


@simulated(devices=1)
def test_a_filter_can_make_it_an_error():
    import warnings

    import torch

    import locus

    a = torch.ones(3, device="cuda")
    with warnings.catch_warnings(), locus.policy("warn"):
        warnings.simplefilter("error", locus.PlacementWarning)
        for _ in range(2):
            with pytest.raises(locus.PlacementWarning, match="LOC004"):
                a + torch.ones(3)
        warnings.simplefilter("ignore", locus.PlacementWarning)
        assert (a + torch.ones(3)).is_cuda


@simulated(devices=1)
def test_other_mistakes_follow_the_policy_too():
    import numpy
    import torch

    import locus

    a = torch.ones(3, device="cuda")
    p = torch.nn.Parameter(torch.ones(3, device="cuda"))
    with locus.policy("move"):
        assert numpy.asarray(a).tolist() == [1, 1, 1]
        p.grad = torch.ones(3)
        assert p.grad.is_cuda
        assert torch.rand(2, device="cuda", generator=torch.Generator()).is_cuda
    for policy in ("move", "raise"):
        with locus.policy(policy), locus.policy("raise"):
            with pytest.raises(TypeError, match="can't convert cuda"):
                a.numpy()
            with pytest.raises(RuntimeError, match="on the same device"):
                p.grad = torch.ones(3)
            with pytest.raises(RuntimeError, match="generator"):
                torch.rand(2, device="cuda", generator=torch.Generator())


def test_a_wrong_name():
    import locus

    for name in ("Warn", "", None, 3):
        with pytest.raises(ValueError, match=r'is not known\. Use one of "collect", "raise", "warn", "move"'):
            locus.policy(name)
    assert repr(locus.policy("warn")) == "locus.policy('warn')"


@simulated(devices=None)
def test_without_devices():
    import locus

    with locus.policy("raise"):
        pass
    with pytest.raises(locus.errors.UsageError, match=r'policy\("warn"\) needs CUDA devices.*locus run'):
        with locus.policy("warn"):
            pass
