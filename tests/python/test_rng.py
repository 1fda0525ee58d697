"""Random numbers on a device: generators of their own, seeds that repeat, states that can be kept."""

import pytest
import torch
from simulated import simulated


@simulated(devices=2)
def test_devices_draw_from_their_own_generators():
    torch.manual_seed(0)
    expected = torch.rand(8)
    torch.manual_seed(0)
    first = torch.rand(8, device="cuda:0")
    assert torch.equal(torch.rand(8), expected), "a draw on the device moved the CPU's generator"
    torch.manual_seed(0)
    assert torch.equal(torch.rand(8, device="cuda:1").cpu(), first.cpu()), "a seed is a seed on every device"
    assert torch.equal(torch.rand(8, device="cuda:0"), first)
    assert not torch.equal(torch.rand(8, device="cuda:0"), first)


@simulated(devices=2)
def test_seeding_one_device():
    torch.cuda.manual_seed_all(7)
    torch.cuda.set_device(1)
    torch.cuda.manual_seed(8)
    assert torch.cuda.initial_seed() == 8
    assert torch.cuda.default_generators[0].initial_seed() == 7
    torch.cuda.seed()
    assert torch.cuda.initial_seed() != 8
    torch.manual_seed(2**40 + 5)
    assert torch.cuda.initial_seed() == 2**40 + 5


@simulated(devices=2)
def test_states():
    torch.manual_seed(1)
    torch.rand(3, device="cuda:1")
    state = torch.cuda.get_rng_state("cuda:1")
    assert state.dtype == torch.uint8 and state.device.type == "cpu" and state.dim() == 1
    first = torch.randn(5, device="cuda:1")
    other = torch.cuda.get_rng_state("cuda:0")
    torch.cuda.set_rng_state(state, "cuda:1")
    assert torch.equal(torch.randn(5, device="cuda:1"), first)
    assert torch.equal(torch.cuda.get_rng_state("cuda:0"), other), "setting one device's state changed the other's"
    with pytest.raises((RuntimeError, TypeError)):
        torch.cuda.set_rng_state(torch.zeros(3, dtype=torch.uint8))


@simulated(devices=2)
def test_generators():
    generator = torch.Generator(device="cuda:1")
    assert generator.device == torch.device("cuda:1")
    torch.manual_seed(0)
    untouched = torch.cuda.get_rng_state("cuda:1")
    a = torch.randn(4, device="cuda:1", generator=generator.manual_seed(5))
    b = torch.randn(4, device="cuda:1", generator=torch.Generator("cuda:1").manual_seed(5))
    assert torch.equal(a, b) and torch.equal(torch.cuda.get_rng_state("cuda:1"), untouched)
    state = generator.get_state()
    c = torch.randperm(9, device="cuda:1", generator=generator)
    assert torch.equal(c, torch.randperm(9, device="cuda:1", generator=generator.set_state(state) or generator))
    assert generator.initial_seed() == 5 and isinstance(generator.seed(), int)


@simulated(devices=1)
def test_generators_of_another_device_are_refused():
    with pytest.raises(RuntimeError, match="Expected a 'cuda' device type for generator but found 'cpu'"):
        torch.rand(1, device="cuda", generator=torch.Generator())
    with pytest.raises(RuntimeError, match="Expected a 'cpu' device type for generator but found 'cuda'"):
        torch.randperm(3, generator=torch.Generator("cuda"))
    with pytest.raises(RuntimeError, match="Expected a 'cpu' device type for generator but found 'cuda'"):
        torch.rand(1, generator=torch.Generator("cuda"))


@simulated(devices=1)
def test_dropout_and_checkpoint_repeat():
    x = torch.ones(1000, device="cuda")
    torch.manual_seed(3)
    one = torch.nn.functional.dropout(x, 0.5)
    torch.manual_seed(3)
    assert torch.equal(one, torch.nn.functional.dropout(x, 0.5))
    with torch.random.fork_rng(devices=[0]):
        inside = torch.rand(3, device="cuda")
    assert torch.equal(inside, torch.rand(3, device="cuda"))


@simulated(devices=2, rng="cpu")
def test_rng_cpu_draws_from_the_host():
    torch.manual_seed(0)
    expected = [torch.rand(3), torch.randn(5), torch.randint(9, (4,)), torch.randperm(6)]
    torch.manual_seed(0)
    actual = [
        torch.rand(3, device="cuda:0"),
        torch.randn(5, device="cuda:1"),
        torch.randint(9, (4,)),
        torch.randperm(6, device="cuda:0"),
    ]
    assert all(torch.equal(a.cpu(), e) for a, e in zip(actual, expected))


@simulated(devices=1, rng="cpu")
def test_first_use_of_the_device_does_not_rewind_the_host():
    """torch.manual_seed before the first use leaves a seed to be set later; by then the host has drawn."""
    torch.manual_seed(0)
    expected = torch.rand(5)
    torch.manual_seed(0)
    assert torch.equal(torch.cat([torch.rand(3), torch.rand(2, device="cuda").cpu()]), expected)


@simulated(devices=1)
def test_distributions_stay_on_the_device():
    distribution = torch.distributions.Normal(torch.zeros(3, device="cuda"), torch.ones(3, device="cuda"))
    assert distribution.rsample((10,)).device.type == "cuda"
    assert torch.distributions.Categorical(logits=torch.zeros(4, device="cuda")).sample((5,)).device.type == "cuda"
    assert torch.distributions.Dirichlet(torch.ones(3, device="cuda")).sample().sum().item() == pytest.approx(
        1, abs=1e-5
    )
    assert torch.distributions.Gamma(torch.ones(2, device="cuda"), 1.0).sample().device.type == "cuda"
    layer = torch.nn.Linear(3, 3, device="cuda")
    for initialize in (
        torch.nn.init.xavier_uniform_,
        torch.nn.init.orthogonal_,
        torch.nn.init.trunc_normal_,
        torch.nn.init.kaiming_normal_,
    ):
        initialize(layer.weight)
        assert layer.weight.device.type == "cuda" and layer.weight.isfinite().all()
