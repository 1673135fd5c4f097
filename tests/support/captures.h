// The captured outputs in tests/data, and tables that cover every input there is.
#pragma once

#include <algorithm>

#include "golden/files/safetensors.h"

namespace mxo::test {

/// A file of the project, as "docs/museum.md".
std::filesystem::path in_the_tree(std::string_view name);

/// tests/data/<name>.safetensors, or the same with .xz; read once in a process.
const TensorFile& capture(std::string_view name);

/// The tensor of that name.  Throws std::out_of_range with the name if there is none.
const Tensor& tensor_of(const TensorFile& file, std::string_view name);

/// A copy whose bits are read as another type of the same size.
Tensor retyped(const TensorFile& file, std::string_view name, Dtype dtype);

/// Whether a code of this format is a NaN.
bool is_nan_code(unsigned code, Dtype format);

/// Elements whose bits differ; NaN is a class.  `format` is that of codes; scales in bytes have
/// e8m0.
Index departures(const Tensor& want, const Tensor& got, Dtype format = Dtype::e8m0);

/// code[i] holds for every input pattern from start[i] up to start[i + 1] - 1, and the last code
/// up to `inputs` - 1.
struct RunTable {
  std::vector<std::uint64_t> start;
  std::vector<std::uint16_t> code;
  std::uint64_t inputs = 0;

  /// The index of the run that holds `input`.
  std::size_t run_of(std::uint64_t input) const;
  /// One past the last input of a run.
  std::uint64_t end_of(std::size_t run) const {
    return run + 1 < start.size() ? start[run + 1] : inputs;
  }
  std::uint16_t operator[](std::uint64_t input) const { return code[run_of(input)]; }
  /// Adds a run, or lengthens the last if it has the same code.
  void append(std::uint64_t first, unsigned value);
  friend bool operator==(const RunTable&, const RunTable&) = default;
};

/// `<name>.start` and `<name>.code` of a capture; `inputs` is 2^32 for f32, 65536 for f16 and bf16.
RunTable run_table(const TensorFile& file, std::string_view name,
                   std::uint64_t inputs = std::uint64_t{1} << 32);

/// join(a[input], b[input]) for every input; the tables have the same inputs.
template <typename Join>
RunTable joined(const RunTable& a, const RunTable& b, Join join) {
  RunTable both;
  both.inputs = a.inputs;
  for (std::size_t i = 0, j = 0; i < a.start.size() && j < b.start.size();) {
    both.append(std::max(a.start[i], b.start[j]), join(a.code[i], b.code[j]));
    const std::uint64_t end = std::min(a.end_of(i), b.end_of(j));
    if (a.end_of(i) == end) ++i;
    if (b.end_of(j) == end) ++j;
  }
  return both;
}

}  // namespace mxo::test
