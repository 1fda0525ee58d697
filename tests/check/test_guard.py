"""guard(): every way in which PyTorch says that a tensor is elsewhere is explained; any other error is left alone."""

import textwrap

import pytest
from guard_cases import CASES, program_of, wrong


@pytest.mark.parametrize("history", [False, True])
def test_every_sentence_of_pytorch_s(program, history):
    result = program.run_source(program_of(CASES, history), simulate=2).ok()
    assert not wrong(result.stdout, CASES)


def run(program, text, **options):
    return program.run_source("import locus, torch\n" + textwrap.dedent(text), simulate=1, **options)


def test_other_errors_are_left_alone(program):
    text = """
        import json, traceback
        locus.guard()
        dev = torch.device("cuda")

        class Own(ValueError):
            asked = 0
            def __str__(self):
                Own.asked += 1
                return "Expected all tensors to be on the same device"

        def ours():
            x, y = torch.ones(2, device=dev), torch.ones(2)
            raise RuntimeError("expected x and y to be on the same device")

        def own():
            raise Own()

        def hook():
            y = torch.ones(3, device=dev, requires_grad=True) * 2
            y.register_hook(lambda g: g.half())
            y.sum().backward()

        for call in (
            lambda: torch.ones(2, device=dev) + torch.ones(3, device=dev),
            lambda: torch.ones(2, device="cuda:7"),
            lambda: torch.ones(2).to("cud"),
            lambda: int("device"),
            lambda: torch.ones(2, 3) @ torch.ones(2, 3),
            lambda: json.loads("cuda:0"),
            ours, own, hook,
        ):
            try:
                call()
                print("no error")
            except Exception as error:
                print(hasattr(error, "finding"), getattr(error, "__notes__", None), list(error.__dict__))
        print(Own.asked)
        """
    lines = run(program, text).ok().stdout.splitlines()
    assert all(line.startswith("False None") for line in lines[:-1]) and len(lines) == 10, lines
    assert lines[-1] == "0"


def test_what_can_not_be_read_is_not_guessed(program):
    text = """
        locus.guard()
        scale, w = torch.ones(1), torch.ones(8, 1, device="cuda")
        fc, x = torch.nn.Linear(4, 1).cuda(), torch.ones(8, 4, device="cuda")

        def same(value):
            return value

        def pair():
            return [w, scale.expand(8, 1)]

        for call in (
            lambda: fc(x) * (scale if len(x) else 1),
            lambda: fc(x) * same(scale),
            lambda: torch.cat(pair()),
            lambda: torch.cat([fc(x), *[part for part in pair()]]),
            lambda: w * same(scale),
            lambda: fc(x) * scale,
            lambda: fc(x) * -scale,
        ):
            try:
                call()
            except RuntimeError as error:
                found = getattr(error, "finding", None)
                print([(o["expression"], o["device"]) for o in found.data["operands"]] if found else None)
        """
    none, read = "None", "[('fc(x)', 'cuda:0'), ('{}', 'cpu')]"
    expected = [none] * 4 + ["[('w', 'cuda:0'), ('same(scale)', 'cpu')]", read.format("scale"), read.format("-scale")]
    assert run(program, text).ok().stdout.splitlines() == expected


def test_an_uncaught_error_ends_with_the_finding(program):
    text = """
        import sys
        def mine(kind, error, traceback):
            print("mine", error.finding.code)
            sys.__excepthook__(kind, error, traceback)
        sys.excepthook = mine
        locus.guard()
        scale = torch.ones(2)
        def use(x):
            try:
                return x * scale
            except RuntimeError as error:
                raise ValueError("training failed") from error
        try:
            use(torch.ones(2, device="cuda"))
        except ValueError:
            sys.excepthook(*sys.exc_info())  # as Python does at the end of a program
        """
    result = run(program, text.replace("error.finding", "error.__cause__.finding")).ok()
    assert result.stdout == "mine LOC004\n"
    assert result.stderr.count("error[LOC004]") == 1
    assert result.stderr.index("error[LOC004]") < result.stderr.index("ValueError: training failed")


def test_a_hook_that_comes_later_an_own_note_and_a_logger(program):
    text = """
        import logging, sys
        locus.guard()
        sys.excepthook = sys.__excepthook__  # as a framework sets its own, after us
        x, y = torch.ones(2, device="cuda"), torch.ones(2)
        try:
            x + y
        except RuntimeError as error:
            if hasattr(error, "add_note"):
                error.add_note("at the third step")
            logging.exception("caught")
        try:
            try:
                x + y
            finally:
                int("5")
        except RuntimeError as error:
            again = error
        raise again
        """
    result = run(program, text)
    assert result.code == 1 and result.stderr.count("error[LOC004]") == 2
    logged, _, raised = result.stderr.partition("Traceback")[2].partition("Traceback")
    assert "error[LOC004]" in logged and "error[LOC004]" in raised


def test_threads_pools_and_groups(program):
    text = """
        import concurrent.futures, threading, sys
        locus.guard()
        x, y = torch.ones(2, device="cuda"), torch.ones(2)
        def work():
            return x + y
        with concurrent.futures.ThreadPoolExecutor() as pool:
            try:
                pool.submit(work).result()
            except RuntimeError as error:
                print(error.finding.code, error.finding.culprit["name"])
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        if sys.version_info >= (3, 11):
            try:
                work()
            except RuntimeError as error:
                raise ExceptionGroup("several", [ValueError("other"), error]) from None
        """
    result = run(program, text)
    assert result.stdout == "LOC004 y\n"
    assert result.stderr.count("error[LOC004]") == (2 if "ExceptionGroup" in result.stderr else 1), result.stderr


def test_errors_that_pytorch_carries_over_from_threads_and_workers(program):
    text = """
        from torch.utils.data import DataLoader, Dataset
        locus.guard()

        class Made(Dataset):
            def __init__(self, make):
                self.make = make
            def __len__(self):
                return 4
            def __getitem__(self, index):
                return self.make(index)

        x = torch.ones(2, device="cuda")
        def adds(index):
            return x.cpu() + (torch.ones(2) if index else x)
        def forks(index):
            return torch.ones(2).cuda()
        def pins(index):
            return x
        for make, options in (
            (adds, {}),
            (forks, {"num_workers": 1, "multiprocessing_context": "fork"}),
            (pins, {"pin_memory": True}),
        ):
            try:
                for _ in DataLoader(Made(make), batch_size=2, **options):
                    pass
            except RuntimeError as error:
                finding = getattr(error, "finding", None)
                print(make.__name__, finding and (finding.code, finding.cause["line"]))
        """
    result = run(program, text)
    lines = result.stdout.splitlines()
    assert [line.split()[0] for line in lines] == ["adds", "forks", "pins"], result.describe()
    assert lines[:2] == ["adds ('LOC021', 16)", "forks ('LOC018', 18)"], lines
    assert "LOC021" in lines[2], lines


def test_a_machine_without_the_checkpoint_s_device(program):
    folder = program.run_source("import tempfile; print(tempfile.mkdtemp())").ok().stdout.strip()
    path = f"{folder}/model.pt"
    program.run_source(f"import torch; torch.save(torch.ones(2, device='cuda'), {path!r})", simulate=1).ok()
    read = f"import locus, torch\nlocus.guard()\ntry:\n    torch.load({path!r})\nexcept RuntimeError as error:\n    "
    result = program.run_source(read + "print(error.finding.code, error.finding.fixes[0]['new'])").ok()
    assert result.stdout == f'LOC010     torch.load({path!r}, map_location="cpu")\n'


@pytest.mark.parametrize(
    ("made", "fix"),
    [
        ("Net().cuda()", 'self.register_buffer("scale", torch.ones(2), persistent=False)'),
        ("Net(torch.device('cuda'))", "self.scale = torch.ones(2, device=device)"),
    ],
)
def test_a_plain_attribute_is_fixed_by_how_its_module_came_to_the_card(program, made, fix):
    arguments = "self, device" if "device" in made else "self"
    text = f"""
        locus.guard()
        class Net(torch.nn.Module):
            def __init__({arguments}):
                super().__init__()
                self.fc = torch.nn.Linear(2, 2{", device=device" if "device" in made else ""})
                self.scale = torch.ones(2)
            def forward(self, x):
                return self.fc(x) * self.scale
        net = {made}
        net(torch.ones(1, 2, device="cuda"))
        """
    result = run(program, text)
    assert result.code == 1
    assert fix in result.stderr, result.describe()
