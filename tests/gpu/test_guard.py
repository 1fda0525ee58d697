"""guard(): PyTorch's own errors, from whatever raised them, carry the finding."""

import textwrap

import pytest
from guard_cases import CASES, program_of, wrong


@pytest.mark.parametrize("history", [False, True])
def test_every_sentence_of_pytorch_s(program, history):
    devices = int(program.run_source("import torch; print(torch.cuda.device_count())").ok().stdout)
    names = [name for name, case in CASES.items() if case.devices <= devices]
    result = program.run_source(program_of(names, history)).ok()
    assert not wrong(result.stdout, names)


def test_an_uncaught_error_ends_with_the_finding(program):
    text = """
        import locus, torch
        locus.guard()
        class Net(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.fc = torch.nn.Linear(2, 2)
                self.scale = torch.ones(2)
            def forward(self, x):
                return self.fc(x) * self.scale
        net = Net().cuda()
        net(torch.ones(1, 2, device="cuda"))
        """
    result = program.run_source(textwrap.dedent(text))
    assert result.code == 1
    assert "RuntimeError: Expected all tensors" in result.stderr
    assert "error[LOC003]" in result.stderr.partition("RuntimeError")[2]
    assert 'self.register_buffer("scale", torch.ones(2)' in result.stderr


def test_other_errors_are_left_alone(program):
    text = """
        import locus, torch
        locus.guard(history=True)
        try:
            torch.ones(2, device="cuda") + torch.ones(3, device="cuda")
        except RuntimeError as error:
            print(hasattr(error, "finding"), getattr(error, "__notes__", None))
        """
    assert program.run_source(textwrap.dedent(text)).ok().stdout == "False None\n"
