# compare: none (draws on the device)
# devices: 2
"""Random numbers: seeds repeat, devices have their own generators, the CPU's stream is left alone."""

import torch

cuda = torch.cuda.is_available()
device = torch.device("cuda:0" if cuda else "cpu")

torch.manual_seed(0)
expected = torch.rand(4)
torch.manual_seed(0)
on_device = torch.rand(1000, device=device)
if cuda:
    print("CPU stream untouched", torch.equal(torch.rand(4), expected))

torch.manual_seed(0)
print("manual_seed reaches the device", torch.equal(torch.rand(1000, device=device), on_device))
print("uniform", bool(((on_device >= 0) & (on_device < 1)).all()), abs(on_device.mean().item() - 0.5) < 0.05)

generator = torch.Generator(device=device).manual_seed(123)
a = torch.randn(50, generator=generator, device=device)
state = generator.get_state()
b = torch.randn(50, generator=generator, device=device)
generator.set_state(state)
print("generator state", torch.equal(b, torch.randn(50, generator=generator, device=device)), not torch.equal(a, b))
print("generator", generator.device.type == device.type, generator.initial_seed(), state.device.type, state.dtype)
print("permutation", torch.equal(torch.randperm(20, generator=generator, device=device).sort()[0].cpu(), torch.arange(20)))

draws = {
    "randint": torch.randint(3, 9, (500,), device=device), "bernoulli": torch.bernoulli(torch.full((500,), 0.25, device=device)),
    "normal": torch.normal(2.0, 0.5, (500,), device=device), "exponential": torch.empty(500, device=device).exponential_(2.0),
    "multinomial": torch.multinomial(torch.tensor([0.1, 0.0, 0.9], device=device), 500, replacement=True),
    "poisson": torch.poisson(torch.full((500,), 3.0, device=device)), "random_": torch.empty(500, device=device).random_(0, 7),
    "cauchy": torch.empty(500, device=device).cauchy_(), "geometric": torch.empty(500, device=device).geometric_(0.5),
    "rand_like": torch.rand_like(on_device), "log_normal": torch.empty(500, device=device).log_normal_(),
}
for name, value in draws.items():
    assert value.device == on_device.device, name
    print(name, bool(value.isfinite().all() if value.is_floating_point() else True), len(value.unique()) > 1)
assert not (draws["multinomial"] == 1).any()

if cuda:
    try:
        torch.rand(2, device=device, generator=torch.Generator("cpu"))
    except RuntimeError as error:
        print("wrong generator:", "Expected a 'cuda' device type for generator" in str(error))

if torch.cuda.device_count() > 1:
    torch.cuda.manual_seed_all(5)
    zero, one = torch.rand(5, device="cuda:0"), torch.rand(5, device="cuda:1")
    print("same seed, same numbers on both", torch.equal(zero.cpu(), one.cpu()))
    torch.cuda.manual_seed(6)  # the current device's only
    print("one reseeded", torch.cuda.initial_seed() == 6, not torch.equal(torch.rand(5, device="cuda:0").cpu(), torch.rand(5, device="cuda:1").cpu()))
    states = torch.cuda.get_rng_state_all()
    zero, one = torch.rand(5, device="cuda:0"), torch.rand(5, device="cuda:1")
    torch.cuda.set_rng_state_all(states)
    print("states", len(states), torch.equal(zero, torch.rand(5, device="cuda:0")), torch.equal(one, torch.rand(5, device="cuda:1")))
    with torch.random.fork_rng():
        inside = torch.rand(5, device="cuda:0")
    print("fork_rng", torch.equal(inside, torch.rand(5, device="cuda:0")))
    default = torch.cuda.default_generators
    print("default generators", len(default), default[1].device)
