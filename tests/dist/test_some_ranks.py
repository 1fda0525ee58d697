"""`run --nproc`, and `--nnodes`: ranks of several hosts on this machine."""

import subprocess
import sys

LOCUS = [sys.executable, "-m", "locus"]


def run(*arguments, cwd, timeout=300):
    return subprocess.run([*LOCUS, *arguments], cwd=cwd, timeout=timeout, capture_output=True, text=True)


def test_run_starts_ranks_on_hosts(tmp_path):
    (tmp_path / "train.py").write_text(
        "import os, torch, torch.distributed as dist\n"
        "dist.init_process_group('nccl')\n"
        "local = int(os.environ['LOCAL_RANK'])\n"
        "x = torch.ones(1, device=f'cuda:{local}')\n"
        "dist.all_reduce(x)\n"
        "e = os.environ\n"
        "words = [e['RANK'], e['LOCAL_RANK'], e['GROUP_RANK'], e['LOCAL_WORLD_SIZE'], torch.cuda.device_count()]\n"
        "print(*words, x.item())\n"
    )
    done = run("run", "--nproc", "4", "--nnodes", "2", "train.py", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.splitlines()) == ["0 0 0 2 2 4.0", "1 1 0 2 2 4.0", "2 0 1 2 2 4.0", "3 1 1 2 2 4.0"]


def test_memory_is_of_one_process(tmp_path):
    done = run("memory", "--nproc", "2", "train.py", cwd=tmp_path)
    assert done.returncode == 2 and "--nproc and --nnodes can't be had with it" in done.stderr


def test_run_hands_on_the_exit_status(tmp_path):
    (tmp_path / "train.py").write_text("import os, sys\nsys.exit(3 if os.environ['RANK'] == '1' else 0)\n")
    assert run("run", "--nproc", "2", "train.py", cwd=tmp_path).returncode == 3
