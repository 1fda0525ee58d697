"""Writes the device rules of the installed PyTorch as a C++ table, from its own operator metadata.

    make_rules.py native_functions.yaml rules.inc

PyTorch's code generator puts a same-device check into the CUDA wrapper of every operator, except where the
metadata says `device_check: NoCheck`; those check inside (TensorIterator) or not at all. A functional or in-place
variant follows the structured operator it delegates to. Not a YAML parser: it reads the few keys it needs.
"""

import re
import sys

FUNC = re.compile(r"^- func: ([\w.]+)\(")
KEY = re.compile(r"^  (device_check|structured_delegate): *([\w.]+)")


def read_rules(path):
    """Names of the operators whose CUDA wrapper has no device check."""
    unchecked, delegates, name = set(), {}, None
    with open(path, encoding="utf-8") as lines:
        for line in lines:
            if match := FUNC.match(line):
                name = match[1]
            elif (match := KEY.match(line)) and name:
                if match[1] == "structured_delegate":
                    delegates[name] = match[2]
                elif match[2] == "NoCheck":
                    unchecked.add(name)
    unchecked.update(name for name, target in delegates.items() if target in unchecked)
    return sorted(unchecked)


def main():
    source, target = sys.argv[1:3]
    names = read_rules(source)
    if len(names) < 100:
        sys.exit(f"make_rules.py: {source} has only {len(names)} unchecked operators; is it native_functions.yaml?")
    with open(target, "w", encoding="utf-8") as out:
        out.write("// Made by tools/make_rules.py from PyTorch's native_functions.yaml: operators that the CUDA\n"
                  "// wrapper does not check.\n")
        out.writelines(f'"{name}",\n' for name in names)


if __name__ == "__main__":
    main()
