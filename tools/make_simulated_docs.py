# ruff: noqa: E501
"""Writes docs/simulated.md from the table of features and the measured conformance.

    make_simulated_docs.py [--check]      # --check: says whether the page is up to date, writes nothing

Features come from python/locus/surface/simulated.py, names that refuse from python/locus/surface/not_simulated.py, figures from
docs/conformance.json, which the slow tests write with LOCUS_UPDATE_DOCS=1 (see tests/conformance/figures.py).
"""

import ast
import importlib.util
import json
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "simulated.md"
FIGURES = ROOT / "docs" / "conformance.json"


def load(path):
    """A module of the package by itself: the package would ask for PyTorch."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module


def refusing_names():
    """{advice: [names]} of not_simulated.py, read from its text."""
    tree = ast.parse((ROOT / "python" / "locus" / "surface" / "not_simulated.py").read_text())
    words, advice = {}, {}
    for node in tree.body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            try:
                words[node.targets[0].id] = ast.literal_eval(node.value)
            except ValueError:
                continue
        if isinstance(node, ast.AnnAssign) and node.target.id == "NOT_SIMULATED":
            for name, value in zip(node.value.keys, node.value.values):
                text = words[value.id] if isinstance(value, ast.Name) else ast.literal_eval(value)
                advice.setdefault(text, []).append(name.value)
    return advice


def figures_table():
    """The measured figures, one table for each version of PyTorch."""
    versions = json.loads(FIGURES.read_text())
    lines = []
    for version, figures in sorted(versions.items()):
        lines += [f"PyTorch {version}:", "", "| | | | | |", "| --- | ---: | ---: | ---: | ---: |"]
        for name, *cells in figures:
            cells = (cells + [""] * 4)[:4]
            lines.append(f"| {name} | " + " | ".join(cells) + " |")
        lines.append("")
    return lines


def page():
    """The whole text."""
    simulated = load(ROOT / "python" / "locus" / "surface" / "simulated.py")
    lines = ["# What is simulated", "", simulated.INTRODUCTION, ""]
    lines.insert(0, "<!-- Made by tools/make_simulated_docs.py; edit python/locus/surface/simulated.py. -->")
    for section, features in simulated.SECTIONS.items():
        lines += [f"## {section}", "", "| feature | | notes | test |", "| --- | --- | --- | --- |"]
        for feature in features:
            test = f"`{feature.test}`" if feature.test else ""
            lines.append(f"| {feature.name} | {feature.status} | {feature.notes} | {test} |")
        lines.append("")
        if section.startswith("`torch.cuda`"):
            lines += ["These refuse:", "", "| names | instead |", "| --- | --- |"]
            for advice, names in refusing_names().items():
                shown = ", ".join(f"`{name.removeprefix('torch.cuda.')}`" for name in names)
                lines.append(f"| {shown} | {advice.rstrip('.')} |")
            lines.append("")
    lines += [
        "## How it is proved",
        "",
        "PyTorch's own databases of samples (operators, modules, optimizers) run on `cuda:0` and on the CPU: values bit for",
        "bit, dtype, shape, strides, device, shared memory, the number of writes; forward and gradient; float32, int64,",
        "complex64, bfloat16; in-place and `out=`. Where PyTorch takes another path for CUDA tensors, each operator on it is compared with the",
        "same operator on the CPU. *Listed* are differences with a reason, in `tests/conformance/differences.py`. The",
        "verdicts are those of an NVIDIA H200 with PyTorch 2.11: does a call with operands on two devices raise, where is its",
        "result, what does the error say.",
        "",
        *figures_table(),
    ]
    return "\n".join(lines).rstrip() + "\n"


def main():
    text = page()
    if "--check" in sys.argv:
        if PAGE.read_text() != text:
            sys.exit("docs/simulated.md is not what tools/make_simulated_docs.py makes; run it")
        return
    PAGE.write_text(text)


if __name__ == "__main__":
    main()
