# ruff: noqa: E501
"""Writes the device rules of the installed PyTorch as a C++ table, from its own operator metadata.

    make_rules.py native_functions.yaml rules.inc

PyTorch's code generator puts a same-device check into the CUDA wrapper of every operator, except where the metadata of
that very overload says `device_check: NoCheck`; those check inside (TensorIterator) or not at all. A functional or
in-place variant has the kernel of the structured operator it delegates to. Not a YAML parser: it reads the few keys it
needs.
"""

import re
import sys

FUNC = re.compile(r"^- func: ([\w.]+)\(")
KEY = re.compile(r"^  (device_check|structured_delegate|structured_inherits|structured|dispatch): *([\w.]*)")
BACKENDS = re.compile(r"^    ([\w, ]+):")


def read_operators(path):
    """{operator: {key: value}}; under "dispatch" the set of backends that have a kernel."""
    operators, name, section = {}, None, None
    with open(path, encoding="utf-8") as lines:
        for line in lines:
            if match := FUNC.match(line):
                name, section = match[1], None
                operators[name] = {}
            elif (match := KEY.match(line)) and name:
                section = match[1]
                operators[name][section] = set() if section == "dispatch" else match[2]
            elif section == "dispatch" and (match := BACKENDS.match(line)):
                operators[name][section].update(key.strip() for key in match[1].split(","))
            elif line.startswith("  ") and not line.startswith("   "):
                section = None
    return operators


def flags_of(operator, operators):
    """unchecked, structured, iterator, host_only, device_only: what locus/bridge/door/rules.cc wants to know."""
    shared = operators.get(operator.get("structured_delegate"), operator)
    backends = shared.get("dispatch", set())
    composite = any(key.startswith("Composite") for key in backends)
    return (
        operator.get("device_check") == "NoCheck",
        "structured" in operator or "structured_delegate" in operator,
        shared.get("structured_inherits") == "TensorIteratorBase",
        "CPU" in backends and "CUDA" not in backends and not composite,
        "CUDA" in backends and "CPU" not in backends and not composite,
    )


def main():
    source, target = sys.argv[1:3]
    operators = read_operators(source)
    table = {name: flags_of(operator, operators) for name, operator in sorted(operators.items())}
    table = {name: flags for name, flags in table.items() if any(flags)}
    if len(table) < 100:
        sys.exit(f"make_rules.py: {source} has only {len(table)} such operators; is it native_functions.yaml?")
    with open(target, "w", encoding="utf-8") as out:
        out.write(
            "// Made by tools/make_rules.py from PyTorch's native_functions.yaml: operator, is its CUDA wrapper unchecked,\n"
            "// is it structured, is it a TensorIterator, is there a kernel for the CPU but none for CUDA, or the reverse.\n"
        )
        for name, flags in table.items():
            values = ", ".join(str(flag).lower() for flag in flags)
            out.write(f'{{"{name}", {{{values}}}}},\n')


if __name__ == "__main__":
    main()
