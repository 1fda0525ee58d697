"""Makes the helpers of this folder importable, here and in the processes that run the ranks; here the corpus too."""

import os
import sys
from pathlib import Path

HERE = str(Path(__file__).parent)
sys.path[:0] = [HERE, str(Path(__file__).parent.parent / "check")]
os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (HERE, os.environ.get("PYTHONPATH", ""))))
