#!/usr/bin/env python3
"""What a file names of the standard library or of ours it includes, itself or by a header of ours.

By luck it compiles without: headers of one standard library bring others, and sources are compiled
in groups (cmake/layer.cmake).  A user's compiler may have no such luck.
Usage: includes_test.py SOURCE_ROOT.  Prints each name without its header; exits 1 if there is one.
"""
import functools
import re
import sys
from pathlib import Path

FOLDERS = ["formats", "ops", "emu", "golden", "tools"]
ANY_OF = {  # names of std::, and the headers any of which gives them
    "algorithm": "(min|max|clamp|sort|stable_sort|partial_sort|find|find_if|any_of|all_of|none_of|copy|copy_n|copy_if|"
                 "fill|fill_n|equal|count|count_if|upper_bound|lower_bound|max_element|min_element|unique|reverse|"
                 "replace|transform|remove_if|stable_partition|binary_search|set_union|set_intersection|"
                 "lexicographical_compare)",
    "array": "(array|to_array)",
    "bit": "(bit_cast|countr_zero|countl_zero|popcount|has_single_bit|bit_width|bit_ceil)",
    "cmath": "(fabs|isnan|isfinite|isinf|isnormal|signbit|sqrt|ldexp|frexp|log|log2|log10|log1p|exp|exp2|ceil|"
             "floor|round|lround|llround|rint|trunc|ilogb|nextafter|copysign|fma|pow|tanh|erf|nan)",
    "cstdint": "(u?int(8|16|32|64|ptr)_t)",
    "cstring": "(memcpy|memset|memcmp|memmove|memchr|strerror|strlen)",
    "filesystem": "(filesystem)",
    "functional": "(function|less|greater|plus|ref|cref|hash)",
    "iterator": "(back_inserter|make_move_iterator|istreambuf_iterator)",
    "limits": "(numeric_limits)",
    "map": "(map|multimap)",
    "memory": "(unique_ptr|shared_ptr|weak_ptr|make_unique|make_shared)",
    "numeric": "(iota|accumulate|gcd|exclusive_scan|inner_product)",
    "optional": "(optional|nullopt)",
    "random": "(mt19937(_64)?|random_device|uniform_\\w+_distribution|normal_distribution)",
    "span": "(span|as_bytes|as_writable_bytes)",
    "string": "(string|to_string|stoi|stoll|stod|getline)",
    "string_view": "(string_view)",
    "system_error": "(error_code|errc|system_error)",
    "tuple": "(tie|tuple|make_tuple)",
    "unordered_map": "(unordered_map)",
    "utility": "(move|pair|make_pair|swap|exchange|forward|index_sequence|make_index_sequence)",
    "vector": "(vector)",
}
# The standard says so, or every library there is.
ALSO_BY = {
    "string_view": {"string", "filesystem"}, "cstring": {"string.h"}, "cstdint": {"stdint.h"},
    "cmath": {"math.h"}, "system_error": {"charconv", "filesystem", "fstream", "iostream", "ios"},
    "string": {"filesystem", "sstream", "iostream", "fstream"}, "tuple": {"map"},
    "iterator": {"vector", "string", "array", "map", "set", "span", "string_view", "unordered_map", "filesystem"},
    "utility": {"vector", "string", "array", "map", "set", "optional", "algorithm", "memory", "functional",
                "tuple", "unordered_map", "numeric", "span", "string_view", "filesystem", "variant"},
    "memory": {"functional", "filesystem"},
    "functional": {"map"},  # std::less, a default of its templates
}
ALL = {"nlohmann/json.hpp", "CLI/CLI.hpp", "fmt/format.h", "Eigen/Dense", "Eigen/Core"}  # bring what they like
INCLUDE = re.compile(r"^[ \t]*#[ \t]*include[ \t]*([<\"])([^>\"]+)[>\"]", re.MULTILINE)
TEXT = re.compile(r"//[^\n]*|/\*.*?\*/|R\"\((?:.|\n)*?\)\"|\"(?:\\.|[^\"\\\n])*\"", re.DOTALL)
NAMES = {header: re.compile(rf"\bstd::(?:ranges::)?{names}\b(?!::\w*_t)") for header, names in ANY_OF.items()}

# What headers of ours declare for others: types and constants, and functions.
DECLARED = re.compile(r"^(?:template.*>\s*)?(?:(?:struct|class|union|enum(?: class)?|using) (?:\[\[\w+\]\] )?([A-Z]\w+)\b(?! *;)|"
                      r"(?:inline |extern |static )*(?:constexpr|const) [^=;(]*?\b(k[A-Z]\w*)|"
                      r"(?:inline |constexpr |extern |\[\[nodiscard\]\] |MXO_HD )*[A-Za-z_][\w:<>,*& ]*[ *&](?!alignas)([a-z]\w+)\()",
                      re.MULTILINE)
NAMED = re.compile(r"(?<!\bstd::)(?<!\branges::)(?<![\w.>])([A-Z]\w+|k[A-Z]\w*)\b")
CALLED = re.compile(r"(?:^|[^\w.>:]|mxo::)([a-z]\w+)\(")
TEST = re.compile(r"\b(?:TEST(?:_[FP])?|INSTANTIATE_TEST_SUITE_P)\(.*")


@functools.cache
def plain(path: Path) -> str:
    """A file without its comments, its strings and the names of its tests."""
    return TEST.sub(" ", TEXT.sub(" ", path.read_text()))


@functools.cache
def words(path: Path) -> frozenset:
    return frozenset(re.findall(r"\w+", plain(path)))


@functools.cache
def headers(root: Path, name: str) -> frozenset:
    """Files of ours that come with a file, itself among them."""
    found = {root / name}
    for kind, target in INCLUDE.findall((root / name).read_text()):
        if kind == '"' and (root / target).is_file():
            found |= headers(root, target)
    return frozenset(found)


def declared(root: Path) -> tuple:
    """Names of types and constants, and of functions, that any header of ours declares."""
    types, functions = set(), set()
    for folder in [*FOLDERS, "tests"]:
        for path in (root / folder).rglob("*.h"):
            for kind, constant, function in DECLARED.findall(plain(path)):
                types |= {kind, constant} - {""}
                functions |= {function} - {""}
    return types, functions


def ours(root: Path, name: str, types: set, functions: set) -> list:
    """Names of ours that a source uses, and neither declares nor includes."""
    text = plain(root / name)
    there = set().union(*(words(path) for path in headers(root, name) - {root / name}))
    missing = []
    for used in sorted((set(NAMED.findall(text)) & types) - there):
        if not re.search(rf"\b(struct|class|using|typename|int|bool) {used}\b|\benum [^;]*\b{used}\b|> {used};|"
                         rf"\bextern [^;]*\b{used}\b|\bX\({used},|"
                         rf"\bk[A-Z]\w*(?<=\b{used})(\[[^;]*?\])* ?(=(?!=)|\{{|\()", text):
            missing.append(used)
    for used in sorted((set(CALLED.findall(text)) & functions) - there - {"decltype"}):
        declares = rf"[\w>&*\]] [&*]?{used}[,;)=({{ ]|[&*]{used}\b"
        if not re.search(declares, re.sub(rf"\breturn {used}", "", text)):
            missing.append(f"{used}()")
    return missing


@functools.cache
def included(root: Path, name: str) -> frozenset:
    """Headers of the library and of others that come with a file of ours."""
    found = set()
    for kind, target in INCLUDE.findall((root / name).read_text()):
        if kind == "<":
            found.add(target)
        elif (root / target).is_file():
            found |= included(root, target)
    return frozenset(found)


def main(root: Path) -> int:
    offences, seen = [], 0
    types, functions = declared(root)
    for folder in [*FOLDERS, "tests"]:
        for path in sorted([*(root / folder).rglob("*.cc"), *(root / folder).rglob("*.h")]):
            name = path.relative_to(root).as_posix()
            if name.startswith("tests/consumer/"):  # their headers are the installed ones
                continue
            seen += 1
            offences += [f"{name}: {used} without its header" for used in ours(root, name, types, functions)]
            if folder == "tests":
                continue
            has = included(root, name)
            if has & ALL:
                continue
            text = TEXT.sub(" ", path.read_text())
            for header, names in NAMES.items():
                if has & ({header} | ALSO_BY.get(header, set())):
                    continue
                used = names.search(text)
                if used:
                    offences.append(f"{name}: {used[0]} without <{header}>")
    assert seen > 900, f"only {seen} files found"
    print("\n".join(offences) or f"{seen} files include what they name")
    return 1 if offences else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
