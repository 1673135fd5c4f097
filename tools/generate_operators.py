#!/usr/bin/env python3
"""Writes python/mxoracle/_operators.py: one typed function an operator, from the catalogue.

Usage: generate_operators.py [--check].  Needs the package installed; --check says whether the file is what
would be written.
"""
import keyword
import sys
import textwrap
from pathlib import Path

import mxoracle

TARGET = Path(__file__).parents[1] / "python" / "mxoracle" / "_operators.py"
HEAD = '''"""The operators as functions.  Written by tools/generate_operators.py from the catalogue."""
from __future__ import annotations

from typing import Any, Literal

from mxoracle._call import run

'''


def spelt(name: str) -> str:
    """An operand's or parameter's name in Python."""
    plain = name.removeprefix("rank<p>.").replace(".", "_")
    return plain + "_" if keyword.iskeyword(plain) else plain


def parameter_name(key: str, operands: set) -> str:
    """In the signature; a parameter that is called like an operand has an underscore behind."""
    plain = key.replace(".", "__")
    return plain + "_" if plain in operands or keyword.iskeyword(plain) else plain


def wrapped(text: str, indent: int) -> list:
    """Lines of at most 100 columns; what does not fit goes on below, four further in."""
    return textwrap.wrap(text, 100, initial_indent=" " * indent,
                         subsequent_indent=" " * (indent + 4), break_on_hyphens=False)  # fmt: skip


def argument(name: str, kind: str) -> list:
    line = f"    {name}: {kind} = None,"
    if len(line) <= 100:
        return [line]
    inner = kind[kind.index("[") + 1 : kind.index("]")]
    return [f"    {name}: Literal[", *wrapped(inner + ",", 8), "    ]", "    | Any = None,"]


def parameter_type(values: str) -> str:
    names = [value for value in values.split("|") if value]
    if not names:
        return "str | int | float | None"
    if set(names) == {"true", "false"}:
        return "bool | None"
    if len(names) == 1:
        return "str | int | float | None"
    return "Literal[" + ", ".join(f'"{name}"' for name in names) + "] | Any"


def joined_inputs(inputs: list) -> list:
    """x.codes and x.scales as one operand x: a pair, or a scaled tensor of torchao.  Where x may
    also be plain, the same."""
    names = [spec["name"] for spec in inputs]
    result = []
    for spec in inputs:
        name = spec["name"]
        if name + ".codes" in names and name + ".scales" in names:
            spec = {**spec, "optional": False}
        stem, _, part = name.rpartition(".")
        if stem and not stem.startswith("rank<p>") and part == "scales" and stem + ".codes" in names:
            continue
        if stem and not stem.startswith("rank<p>") and part == "codes" and stem + ".scales" in names:
            if stem in names:
                continue
            scales = inputs[names.index(stem + ".scales")]
            pair = {
                "name": stem,
                "shape": f"a pair: codes {spec['shape']}, scales {scales['shape']}",
                "types": f"{spec['types']}; {scales['types']}",
                "optional": spec["optional"],
            }
            if scales["optional"] and not spec["optional"]:
                return inputs
            result.append(pair)
        else:
            result.append(spec)
    seen, unique = set(), []
    for spec in result:
        if spec["name"] not in seen:
            seen.add(spec["name"])
            unique.append(spec)
    return unique


def operand_line(spec: dict) -> str:
    optional = "; optional" if spec["optional"] else ""
    return f"{spelt(spec['name'])}: {spec['shape']}, {spec['types']}{optional}"


def function(entry: dict) -> str:
    inputs = joined_inputs(entry["inputs"])
    needed = [spec for spec in inputs if not spec["optional"]]
    # What is a rank's of its own is optional to the catalogue, which counts ranks by it.
    optional = [spec for spec in inputs if spec["optional"]]
    arguments = [f"    {spelt(s['name'])}: Any," for s in needed]
    arguments += [f"    {spelt(s['name'])}: Any = None," for s in optional]
    arguments += ["    *,"]
    operands = {spelt(spec["name"]) for spec in inputs}
    parameters = [(p, parameter_name(p["key"], operands)) for p in entry["parameters"]]
    for p, name in parameters:
        arguments += argument(name, parameter_type(p["values"]))
    arguments += ['    backend: str = "cpu",', "    threads: int | None = None,"]
    if entry["ranks"]:
        arguments += ["    ranks: int | None = None,"]

    lines = [f'    """{entry["purpose"][0].upper()}{entry["purpose"][1:]}.', "", "    Operands:"]
    for spec in inputs:
        lines += wrapped(operand_line(spec), 8)
    lines += ["    Returns:"]
    outputs = entry["outputs"]
    by_name = entry["ranks"] or any(spec["name"].isupper() for spec in outputs)
    for spec in outputs:
        optional_text = "; where asked for" if spec["optional"] else ""
        name = spec["name"].removeprefix("rank<p>.")
        lines += wrapped(f"{name}: {spec['shape']}, {spec['types']}{optional_text}", 8)
    if entry["parameters"]:
        lines += ["    Parameters, the first value is the default:"]
        for p, name in parameters:
            values = f" ({p['values'].replace('|', ', ')})" if p["values"] else ""
            lines += wrapped(f"{name}: {p['meaning']}{values}", 8)
    if entry["ranks"]:
        lines += ["", "    An operand of each rank is a list, with one rank the tensor itself; `ranks` may be left out."]
    lines += ["    All outputs come in a dict." if by_name else returned(outputs), '    """']

    call = ["    outputs = run(", f'        "{entry["name"]}",', "        {"]
    call += [
        f'            "{s["name"].removeprefix("rank<p>.")}": {spelt(s["name"])},' for s in inputs
    ]
    call += ["        },", "        backend=backend,", "        threads=threads,"]
    if entry["ranks"]:
        call += ["        ranks=ranks,"]
    call += [f"        {p['key'].replace('.', '__')}={name}," for p, name in parameters]
    call += ["    )"]
    if by_name:
        call += ["    return outputs"]
    else:
        names = [spec["name"] for spec in outputs]
        listed = ", ".join(f'"{name}"' for name in names) + ("," if len(names) == 1 else "")
        call += [f"    return _in_order(outputs, ({listed}))"]
    kind = "dict[str, Any]" if by_name else "Any"
    return "\n".join(
        [f"def {entry['name']}(", *arguments, f") -> {kind}:", *lines, *call, "", ""]
    )


def returned(outputs: list) -> str:
    if len(outputs) == 1:
        return "    It is returned alone."
    return "    One output is returned alone, several as a tuple in this order."


IN_ORDER = '''
def _in_order(outputs: dict[str, Any], names: tuple[str, ...]) -> Any:
    """The outputs that there are, in the order of `names`; one alone as itself."""
    values = tuple(outputs[name] for name in names if name in outputs)
    return values[0] if len(values) == 1 else values


'''


def text() -> str:
    entries = mxoracle.operators()
    names = ",\n".join(f'    "{entry["name"]}"' for entry in entries)
    functions = "\n".join(function(entry) for entry in entries).rstrip() + "\n"
    return HEAD + f"__all__ = [\n{names},\n]\n\n" + IN_ORDER + functions


def main() -> int:
    if "--check" in sys.argv[1:]:
        if TARGET.read_text() == text():
            return 0
        print(f"{TARGET.name} is not what the catalogue says: run tools/generate_operators.py")
        return 1
    TARGET.write_text(text())
    return 0


if __name__ == "__main__":
    sys.exit(main())
