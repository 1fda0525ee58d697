"""The programs of tests/programs on a real card: do they stop where they say, and run where they should?

python tests/check/on_card.py        needs a CUDA build of PyTorch and a GPU; programs for more GPUs are left out
"""

import re
import sys
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parent.parent / "e2e")]

from corpus import fixed_programs, is_device_error, only_mistake, programs, raises_nothing, read_mistakes  # noqa: E402
from forkrunner import ForkRunner  # noqa: E402


def needs_more(source: str, devices: int) -> bool:
    return devices < 2 and bool(
        re.search(r"cuda:1|cuda:\{|device\(1\)|set_device\(1\)|device_ids|DataParallel", source)
    )


def main() -> int:
    runner = ForkRunner()
    devices = int(runner.run_source("import torch; print(torch.cuda.device_count())").ok().stdout)
    wrong = done = 0
    for path in programs("wrong"):
        source = path.read_text()
        if needs_more(source, devices):
            continue
        for mistake in read_mistakes(source):
            text, where = only_mistake(source, mistake.number)
            result = runner.run_source(text)
            stop = re.findall(r'program\.py", line (\d+)', result.stderr)
            done += 1
            if raises_nothing(source):
                right = result.code == 0
            else:
                right = is_device_error(result.stderr) and stop and int(stop[-1]) == where[mistake.raises]
            if not right:
                wrong += 1
                print(f"--- {path.name}, mistake {mistake.number}: {result.describe()[-1500:]}")
            else:
                print(f"{path.stem}-{mistake.number}: {(result.stderr.strip().splitlines() or [''])[-1][:200]}")
    for path in fixed_programs() + programs("correct"):
        if needs_more(path.read_text(), devices):
            continue
        result = runner.run(path)
        done += 1
        if result.code:
            wrong += 1
            print(f"--- {path.parent.name}/{path.name}: {result.describe()[-1500:]}")
    print(f"{done - wrong} of {done} as they say, on {devices} device(s)")
    runner.close()
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
