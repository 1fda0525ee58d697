"""The functions of PyTorch that make tensors out of nothing, by name."""

from __future__ import annotations

import ast

FACTORIES = {
    "arange", "bartlett_window", "blackman_window", "empty", "empty_strided", "eye", "full", "hamming_window",
    "hann_window", "kaiser_window", "linspace", "logspace", "normal", "ones", "rand", "randint", "randn", "randperm",
    "scalar_tensor", "sparse_coo_tensor", "tensor", "as_tensor", "asarray", "tril_indices", "triu_indices",
    "zeros", "complex", "Generator", "ones_like", "zeros_like", "empty_like", "full_like", "rand_like", "randn_like",
    "randint_like",
}  # fmt: skip

WITHOUT_DEVICE = {
    "from_numpy", "frombuffer", "Tensor", "FloatTensor", "LongTensor", "DoubleTensor", "IntTensor", "BoolTensor",
    "HalfTensor", "ByteTensor", "normal", "complex",
}  # fmt: skip

MAKERS = FACTORIES | WITHOUT_DEVICE
"""All of them."""

_OTHERS = {"np", "numpy", "jnp", "random", "math", "cp", "pd"}
"""Names of libraries that have functions of the same names."""

RANDOM = {"normal", "rand", "randint", "randn", "randperm", "rand_like", "randn_like", "randint_like"}
"""Factories whose numbers depend on where they are drawn: a device of their own would change the program's results."""


def makes_tensor(call: ast.Call) -> bool:
    """Whether a call makes a tensor out of nothing: `torch.ones(3)`, not NumPy's `np.ones(3)`."""
    name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
    root = call.func
    while isinstance(root, ast.Attribute):
        root = root.value
    return name in MAKERS and not (isinstance(root, ast.Name) and root.id in _OTHERS)


def takes_memory(node: ast.AST) -> bool:
    """Whether a piece of program makes a tensor of memory that PyTorch has not allocated: `torch.from_numpy(x)`."""
    calls = (n.func for n in ast.walk(node) if isinstance(n, ast.Call))
    names = {each.attr if isinstance(each, ast.Attribute) else getattr(each, "id", "") for each in calls}
    return bool(names & {"from_numpy", "frombuffer", "as_tensor", "asarray", "from_dlpack"})
