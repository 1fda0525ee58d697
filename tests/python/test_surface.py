"""A walk over the surface: every public name of torch.cuda and torch.accelerator works or says that it doesn't."""

import importlib
import importlib.util
import sys
from pathlib import Path

import pytest
from simulated import simulated

sys.path.insert(0, str(Path(__file__).parent))
import surface_table

TABLES = {"torch.cuda": surface_table.CUDA, "torch.accelerator": surface_table.ACCELERATOR, **surface_table.MODULES}
TABLES = {name: table for name, table in TABLES.items() if importlib.util.find_spec(name)}  # an older PyTorch has fewer


def public_names(module_name):
    module = importlib.import_module(module_name)
    names = getattr(module, "__all__", TABLES[module_name])  # an older PyTorch has fewer lists, and fewer names
    return {name for name in names if hasattr(module, name)}


@pytest.mark.parametrize("module_name", sorted(TABLES))
def test_the_table_has_every_name(module_name):
    missing = public_names(module_name) - set(TABLES[module_name])
    assert not missing, f"{module_name}: how are these called? Add them to surface_table.py: {sorted(missing)}"


@simulated(devices=2, memory="8GiB")
@pytest.mark.parametrize("module_name", sorted(TABLES))
def test_every_name_works_or_says_that_it_does_not(module_name):
    import warnings

    import torch

    warnings.simplefilter("ignore")
    module, table = importlib.import_module(module_name), TABLES[module_name]
    wrong = []
    for name in sorted(public_names(module_name)):
        expression, expectation = table[name]
        names = {
            "torch": torch,
            "x": torch.tensor([1.0, 2.0, 3.0, 4.0], device="cuda:0"),
            module_name.rpartition(".")[2]: module,
        }
        try:
            names["r"] = eval(expression, names)
        except Exception as error:
            refused = "not simulated" in str(error) and name in str(error)
            as_a_card = surface_table.CARD_REFUSES.get(name, "\0") in str(error)
            if not (refused and may_refuse(module_name, name)) and not as_a_card:
                wrong.append(f"{expression}: {type(error).__name__}: {error}")
            continue
        try:
            if not eval(expectation, names):
                wrong.append(f"{expression} is {names['r']!r}, expected {expectation}")
        except Exception as error:
            wrong.append(f"{expression} is {names['r']!r}, and `{expectation}` raised {type(error).__name__}: {error}")
    assert not wrong, f"{len(wrong)} of {len(table)}:\n" + "\n".join(wrong)


def may_refuse(module_name, name):
    return name in surface_table.MAY_REFUSE or module_name == "torch.cuda.nccl"


@simulated(devices=1)
def test_tunable_refuses_by_name():
    import torch

    wrong = []
    for name in torch.cuda.tunable.__all__:
        try:
            getattr(torch.cuda.tunable, name)()
        except TypeError:
            pass  # wants arguments: it is there
        except Exception as error:
            if not ("not simulated" in str(error) and name in str(error)):
                wrong.append(f"{name}: {error}")
    assert not wrong, wrong


@simulated(devices=1)
def test_backends_answer():
    import torch

    assert torch.backends.cuda.is_built()
    assert isinstance(torch.backends.cudnn.is_available(), bool)
    assert torch.backends.cudnn.version() is None or torch.backends.cudnn.version() > 0
    torch.backends.cudnn.benchmark = torch.backends.cudnn.deterministic = True
    assert torch.backends.cudnn.benchmark and torch.backends.cudnn.deterministic
    torch.backends.cuda.matmul.allow_tf32 = True
    assert torch.backends.cuda.matmul.allow_tf32
    torch.set_float32_matmul_precision("high")
    torch.use_deterministic_algorithms(True, warn_only=True)
    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
        q = torch.ones(1, 1, 2, 4, device="cuda")
        assert torch.nn.functional.scaled_dot_product_attention(q, q, q).device.type == "cuda"
    assert torch.version.cuda is None or isinstance(torch.version.cuda, str)
    assert isinstance(torch.cuda.is_bf16_supported(including_emulation=False), bool)


@simulated(devices=None)
def test_without_simulation_the_surface_is_pytorchs_own():
    import torch

    import locus

    assert not torch.cuda.is_available() and torch.cuda.device_count() == 0
    assert locus.simulate is not None and not torch.cuda.is_available()
    with pytest.raises((RuntimeError, AssertionError), match=r"CUDA|NVIDIA"):
        torch.ones(1, device="cuda")
