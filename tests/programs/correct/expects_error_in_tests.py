"""Tests of a library, run by hand: some of them want PyTorch to refuse."""
import contextlib
import unittest

import pytest
import torch


def safe_add(a, b):
    if a.device != b.device:
        raise ValueError(f"{a.device} and {b.device}")
    return a + b


class PlacementTests(unittest.TestCase):
    def test_mixed_devices_are_refused(self):
        with self.assertRaises(RuntimeError):
            torch.ones(2, device="cuda") + torch.ones(2)

    def test_our_own_check(self):
        with self.assertRaisesRegex(ValueError, "cuda:0 and cpu"):
            safe_add(torch.ones(2, device="cuda"), torch.ones(2))


def test_matmul_is_refused():
    with pytest.raises(RuntimeError):
        torch.ones(2, 2, device="cuda:0") @ torch.ones(2, 2)


def test_second_gpu_is_refused():
    with pytest.raises(RuntimeError, match="device"):
        torch.cat([torch.ones(1, device="cuda:0"), torch.ones(1, device="cuda:1")])


test_matmul_is_refused()
test_second_gpu_is_refused()
with contextlib.suppress(RuntimeError):
    torch.ones(3, device="cuda").mul_(torch.ones(3))
result = unittest.TestResult()
unittest.defaultTestLoader.loadTestsFromTestCase(PlacementTests).run(result)
print("run", result.testsRun, "failures", len(result.failures), "errors", len(result.errors))
