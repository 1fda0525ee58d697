"""Writes the device rules of the installed PyTorch as a C++ table, from its own operator metadata.

    make_rules.py native_functions.yaml rules.inc

PyTorch's code generator puts a same-device check into the CUDA wrapper of every operator, except where the
metadata says `device_check: NoCheck`; those check inside (TensorIterator) or not at all. A functional or in-place
variant follows the structured operator it delegates to. Not a YAML parser: it reads the few keys it needs.
"""

import re
import sys

FUNC = re.compile(r"^- func: ([\w.]+)\(")
KEY = re.compile(r"^  (device_check|structured_delegate|structured): *([\w.]+)")


def read_operators(path):
    """Of every operator: is its CUDA wrapper unchecked, is it structured (which decides the wrapper's name)."""
    unchecked, structured, delegates, name = set(), set(), {}, None
    with open(path, encoding="utf-8") as lines:
        for line in lines:
            if match := FUNC.match(line):
                name = match[1]
            elif (match := KEY.match(line)) and name:
                if match[1] == "structured_delegate":
                    delegates[name] = match[2]
                elif match[1] == "structured":
                    structured.add(name)
                elif match[2] == "NoCheck":
                    unchecked.add(name)
    unchecked.update(name for name, target in delegates.items() if target in unchecked)
    structured.update(delegates)
    return {name: (name in unchecked, name in structured) for name in sorted(unchecked | structured)}


def main():
    source, target = sys.argv[1:3]
    operators = read_operators(source)
    if len(operators) < 100:
        sys.exit(f"make_rules.py: {source} has only {len(operators)} such operators; is it native_functions.yaml?")
    with open(target, "w", encoding="utf-8") as out:
        out.write("// Made by tools/make_rules.py from PyTorch's native_functions.yaml:\n"
                  "// operator, is its CUDA wrapper unchecked, is it structured.\n")
        for name, flags in operators.items():
            out.write('{"%s", {%s, %s}},\n' % (name, *(str(flag).lower() for flag in flags)))


if __name__ == "__main__":
    main()
