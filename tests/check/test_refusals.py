"""What PyTorch or a library refuses in words of its own, and nobody catches, is a finding: in every kind of thread and
process, from every family of libraries, wrapped or not. What is caught is none, and the program prints what it prints
without a check.

In the programs each line that is to be found ends with `# FOUND` and how often; nothing else may be found.
"""

import json
import re
import sys
from pathlib import Path

import pytest

LOCUS = Path(__file__).parent / "run_check.py"
LIBRARY = """\
class WrongDevice(Exception):
    def __str__(self):
        return f"tensors are on {' and '.join(self.args)}; they must be on the same device"


def need(kind, words, *tensors):
    raise kind(words)


def compare(a, b):
    raise WrongDevice(str(a.device), str(b.device))
"""
START = """\
import sys, threading
sys.path.insert(0, {library!r})
import library
import torch
a, b = torch.ones(2, 2), torch.ones(2, 2, device="cuda")
"""


@pytest.fixture
def checked(program, tmp_path):
    """Checks a program: what is marked is found, and nothing else; gives its result and findings by line."""
    folder = tmp_path / "site-packages"
    folder.mkdir()
    (folder / "library.py").write_text(LIBRARY)

    def check(text, *options, start=START, plain=True):
        path = tmp_path / "prog.py"
        path.write_text(start.replace("{library!r}", repr(str(folder))) + text)
        where = {"cwd": tmp_path, "deadline": 300, "teardown": True}
        result = program.run(LOCUS, "check", *options, "--json", "report.json", path, **where)
        report = json.loads((tmp_path / "report.json").read_text())
        assert not [note for note in report["notes"] if "fault" in note], report["notes"]
        # One cause may be met at many lines: they are one finding.
        found = {use["line"]: (use, finding) for finding in report["findings"] for use in finding["uses"]}
        lines = enumerate(path.read_text().splitlines(), 1)
        marked = {number: int(mark[1]) for number, line in lines if (mark := re.search(r"# FOUND (\d+)", line))}
        assert {line: use["count"] for line, (use, _) in found.items()} == marked, result.describe()
        assert result.code == 1
        if plain:
            alone = program.run(LOCUS, "run", "--devices", "2", path, **where)
            assert result.stdout == alone.stdout
            # The program's own words are the same; only `locus run` goes on to say what to run instead.
            own, hint, rest = alone.stderr.partition("locus: `locus check` instead of `locus run` says which tensor")
            assert rest.count("\n") <= 1 and (not hint or alone.code != 0), alone.describe()
            assert result.stderr.startswith(own), f"{result.describe()}\n{alone.describe()}"
        return result, {line: finding for line, (_, finding) in found.items()}

    return check


ENDED = """\
def hook(kind, error, traceback):
    print("mine:", kind.__name__, error, traceback.tb_lineno)
    sys.__excepthook__(kind, error, traceback)
sys.excepthook = hook
class Data(torch.utils.data.Dataset):
    def __len__(self): return 4
    def __getitem__(self, index): return torch.block_diag(a, b)  # FOUND 1
for batch in torch.utils.data.DataLoader(Data()):
    pass
"""


def test_the_end_of_the_program(checked):
    """The program's own hook is called as before; no line of ours is in the traceback."""
    result, found = checked(ENDED)
    (finding,) = found.values()
    assert (finding["code"], finding["culprit"]["name"]) == ("LOC004", "a")
    assert finding["culprit"]["expected_device"] == "cuda:0"
    assert len(finding["operands"]) == 2 and all(operand["history"] for operand in finding["operands"])
    assert result.stdout.startswith("mine: RuntimeError torch.block_diag") and "locus/" not in result.stderr


IN_THREADS = """\
def in_thread(function):
    thread = threading.Thread(target=function); thread.start(); thread.join()
@in_thread
def plain(): torch.block_diag(a, b)  # FOUND 1
@in_thread
def autograd():
    y = torch.ones(2, device="cuda", requires_grad=True) * 2
    y.register_hook(lambda gradient: torch.block_diag(a, b))  # FOUND 1
    y.sum().backward()
def repeated(): torch.block_diag(a, b)  # FOUND 5
for _ in range(5): in_thread(repeated)
class Thread(threading.Thread):
    def run(self): torch.block_diag(a, b)  # FOUND 1
thread = Thread(); thread.start(); thread.join()
# Wrapped, and caught.
def refuse(): torch.block_diag(a, b)
@in_thread
def raised_from():
    try: torch.block_diag(a, b)  # FOUND 1
    except RuntimeError as error: raise ValueError("training failed") from error
@in_thread
def raised_in_its_place():
    try: torch.block_diag(a, b)  # FOUND 1
    except RuntimeError: raise ValueError("training failed")
@in_thread
def from_none():
    try: torch.block_diag(a, b)  # FOUND 1
    except RuntimeError: raise ValueError("training failed") from None
@in_thread
def again():
    try: torch.block_diag(a, b)  # FOUND 1
    except RuntimeError:
        print("oh")
        raise
@in_thread
def after_finally():
    try: torch.block_diag(a, b)  # FOUND 1
    finally: {}["none"]
@in_thread
def of_a_rule():
    try: a + b  # FOUND 1
    except RuntimeError as error: raise ValueError("training failed") from error
@in_thread
def by_itself(): raise RuntimeError("the mask and the input are not on the same device")  # FOUND 1
@in_thread
def own_class(): library.compare(a, b)  # FOUND 1
def slowly(): return {}["none"]
@in_thread
def after_it_was_caught():
    try: refuse()
    except RuntimeError: slowly()
@in_thread
def caught():
    try: refuse()
    except RuntimeError as error: print(error)
@in_thread
def ended():
    try: refuse()
    except RuntimeError: sys.exit(3)
# Of other matters.
in_thread(lambda: torch.ones(2, 3, device="cuda") @ torch.ones(2, 3, device="cuda"))
in_thread(lambda: torch.ones(2, 3, device="cuda")[torch.tensor(7)])
in_thread(lambda: {}["same device"])
in_thread(lambda: open("/none/on the same device"))
in_thread(lambda: torch.empty(1 << 50, device="cuda"))  # FOUND 1
# Futures.
from concurrent.futures import ThreadPoolExecutor, wait, FIRST_EXCEPTION
pool = ThreadPoolExecutor(1)
def never_asked(): torch.block_diag(a, b)  # FOUND 1
pool.submit(never_asked)
def only_waited_for(): torch.block_diag(a, b)  # FOUND 1
wait([pool.submit(only_waited_for)], return_when=FIRST_EXCEPTION)
def raised_again(): torch.block_diag(a, b)  # FOUND 1
future = pool.submit(raised_again); wait([future]); in_thread(future.result)
print(pool.submit(refuse).exception())
try: pool.submit(refuse).result()
except RuntimeError as error: print(error)
pool.submit(refuse).add_done_callback(lambda done: print(done.exception()))
pool.shutdown()
print("the end")
"""


def test_in_threads(checked):
    result, _ = checked(IN_THREADS)
    assert result.stdout.endswith("the end\n")


UNNAMED = """\
import _thread, asyncio, gc, time
done = _thread.allocate_lock(); done.acquire()
def alone():
    try: torch.block_diag(a, b)  # FOUND 1
    finally: done.release()
_thread.start_new_thread(alone, ()); done.acquire()
class Closing:
    def __del__(self): torch.block_diag(a, b)  # FOUND 1
closing = Closing(); del closing
async def work(): torch.block_diag(a, b)  # FOUND 1
async def main():
    asyncio.create_task(work())
    await asyncio.sleep(0.01)
asyncio.run(main()); gc.collect()
from concurrent.futures import ThreadPoolExecutor
def mapped(number): torch.block_diag(a, b)  # FOUND 1
with ThreadPoolExecutor(1) as pool:
    thread = threading.Thread(target=lambda: list(pool.map(mapped, [1]))); thread.start(); thread.join()
time.sleep(1)
"""


def test_where_python_only_says_so(checked):
    result, _ = checked(UNNAMED, plain=False)  # addresses are printed, and where a future waited
    assert "Exception ignored in" in result.stderr and "never retrieved" in result.stderr


WORDS = [
    ("RuntimeError", "Tensors must be CUDA and dense"),  # NCCL
    ("ValueError", "Pointer argument (at 0) cannot be accessed from Triton (cpu tensor?)"),
    ("RuntimeError", "index must be CUDA tensor"),  # torch_scatter, torch_sparse
    ("RuntimeError", "dets must be a CUDA tensor"),  # torchvision
    ("ValueError", "Input and kernel must be on the same device. Got cuda:0 and cpu"),  # kornia
    ("AssertionError", "All buffers must be on the same device"),
    ("RuntimeError", "FlashAttention only supports CUDA tensors"),
    ("RuntimeError", "Expected x.is_cuda() to be true, but got false."),
    ("ValueError", "FSDP only supports single device modules but got params on {cpu, cuda:0}"),
]


def test_what_libraries_say(checked):
    calls = [f"call(lambda: library.need({kind}, {words!r}, a, b))  # FOUND 1\n" for kind, words in WORDS]
    text = "def call(function):\n    t = threading.Thread(target=function); t.start(); t.join()\n" + "".join(calls)
    _, found = checked(text, plain=False)
    assert [finding["message"] for _, finding in sorted(found.items())] == [words for _, words in WORDS]
    for finding in found.values():
        assert finding["reason"] == "other" and "library refused the call" in finding["why"]
        assert [(o["name"], o["device"]) for o in finding["operands"]] == [("a", "cpu"), ("b", "cuda:0")]


IN_PROCESSES = """\
import multiprocessing as mp, os
x = torch.ones(2)
def forked(): library.need(RuntimeError, "x must be a CUDA tensor", x)  # FOUND 2
def spawned(): library.need(RuntimeError, "x must be a CUDA tensor", x)  # FOUND 1
class Data(torch.utils.data.Dataset):
    def __len__(self): return 4
    def __getitem__(self, index):
        return library.need(ValueError, "boxes should have the same device as scores")  # FOUND 1
def load():
    for batch in torch.utils.data.DataLoader(Data(), num_workers=1): pass
def in_thread(function):
    thread = threading.Thread(target=function); thread.start(); thread.join()
if __name__ == "__main__":
    for method, target in (("fork", forked), ("spawn", spawned)):
        process = mp.get_context(method).Process(target=target); process.start(); process.join()
        print(method, process.exitcode)
    pid = os.fork()
    if not pid: forked()
    os.waitpid(pid, 0)
    in_thread(load)
"""
ON_HOST = START.replace(', torch.ones(2, 2, device="cuda")', ", torch.ones(2, 2)")  # nothing that starts CUDA


def test_in_processes(checked):
    result, _ = checked(IN_PROCESSES, start=ON_HOST, plain=False)
    assert result.stdout.splitlines()[-2:] == ["fork 1", "spawn 1"] or "spawn 1" in result.stdout


IN_POOLS = """\
from concurrent.futures import ProcessPoolExecutor
import multiprocessing as mp, subprocess
import torch.multiprocessing
def asked(): torch.block_diag(a, b)  # FOUND 1
def never_asked(): torch.block_diag(a, b)  # FOUND 1
def applied(): torch.block_diag(a, b)  # FOUND 1
def forgotten(): torch.block_diag(a, b)  # FOUND 1
def told(): torch.block_diag(a, b)
def started(rank): torch.block_diag(a, b)  # FOUND 1
def in_thread(function):
    thread = threading.Thread(target=function); thread.start(); thread.join()
if sys.argv[1:]:
    torch.block_diag(a, b)  # FOUND 1
if __name__ == "__main__":
    context = mp.get_context("spawn")
    with ProcessPoolExecutor(1, context) as pool:
        in_thread(pool.submit(asked).result)
        pool.submit(never_asked)
    with context.Pool(1) as pool:
        in_thread(lambda: pool.apply(applied))
        pool.apply_async(forgotten).wait()
        pool.apply_async(told, error_callback=print).wait()
    in_thread(lambda: torch.multiprocessing.spawn(started, nprocs=1))
    print(subprocess.run([sys.executable, __file__, "now"]).returncode)
"""


@pytest.mark.slow
def test_in_pools(checked):
    checked(IN_POOLS, plain=False)


RANKS = """\
import os, torch.distributed as dist
dist.init_process_group("nccl", rank=int(os.environ["RANK"]), world_size=2)
torch.cuda.set_device(int(os.environ["RANK"]))
library.need(RuntimeError, "Input tensors need to be on the same GPU, but found cuda:0 and cpu", a)  # FOUND 2
"""


@pytest.mark.slow
def test_in_each_rank(checked):
    _, found = checked(RANKS, "--nproc", "2", start=ON_HOST, plain=False)
    assert [finding["ranks"] for finding in found.values()] == [[0, 1]]


def test_a_mistake_that_a_rule_has_kept_is_not_told_twice(checked):
    """Without memory to go on, PyTorch's error comes after the finding."""
    text = "x = torch.ones(1 << 22)\ny = torch.ones(1 << 22, device='cuda')\nx + y  # FOUND 1\n"
    checked(text, "--memory", "24MiB", start=ON_HOST, plain=False)


@pytest.mark.skipif(sys.version_info < (3, 11), reason="Python 3.11 has groups")
def test_in_a_group(checked):
    text = "try: torch.block_diag(a, b)  # FOUND 1\nexcept RuntimeError as e: raise ExceptionGroup('many', [e])\n"
    checked(text)


ASKED = """\
from torch import nn
class Cut(nn.Module):
    def __init__(self):
        super().__init__()
        self.keep = torch.ones(2)
        self.scale = nn.Parameter(torch.ones(2))
    def forward(self, image):
        if image.dim() == 2:
            for one in (self.keep, self.scale):
                if one.device != image.device:
                    raise ValueError(f"{tuple(one.shape)} of {one.device} does not go with the image")  # FOUND 1
        return image * self.keep * self.scale
def own(): Cut().to("cuda")(b)
rows = torch.ones(3)
def of_a_library(): library.all_alike(b, rows)  # FOUND 1
lone = torch.ones(4)
def of_one(): library.on_a_card(lone)  # FOUND 1
def asked_before():
    same = a.device == b.device
    if not same: raise ValueError("a and b are not on the same device")  # FOUND 1
for each in (own, of_a_library, of_one, asked_before):
    t = threading.Thread(target=each); t.start(); t.join()
"""
ASKING = """\


def all_alike(*tensors):
    for tensor in tensors:
        if tensor.device != tensors[0].device:
            raise RuntimeError("all_alike: not on the same device")


def on_a_card(tensor):
    assert tensor.is_cuda, "the tensor must be a CUDA tensor"
"""


def test_tensors_that_were_asked_about_are_blamed(checked, tmp_path):
    """Whoever refuses has compared devices just before: those tensors are the operands, whatever the words."""
    with (tmp_path / "site-packages" / "library.py").open("a") as library:
        library.write(ASKING)
    _, found = checked(ASKED, plain=False)
    own, of_a_library, of_one, unasked = (found[line] for line in sorted(found))
    assert own["message"] == "(2,) of cpu does not go with the image"
    assert (own["reason"], own["culprit"]["name"]) == ("plain-attribute", "Cut.keep")
    assert "register_buffer" in own["fixes"][0]["new"]
    assert of_a_library["message"] == "all_alike: not on the same device"
    assert (of_a_library["culprit"]["name"], of_a_library["cause"]["text"]) == ("rows", "rows = torch.ones(3)")
    assert of_one["culprit"]["name"] == "lone"
    assert of_one["fixes"][0]["new"] == 'lone = torch.ones(4, device="cuda")'
    assert unasked["reason"] == "other" and unasked["why"].startswith("the program itself refuses")
