// Cases of scaling_aware_transpose: exponents that move, and codes that they push under.
#include <algorithm>

#include "golden/suites/case_list.h"
#include "golden/suites/families.h"

namespace mxo {
namespace {

struct TransposeCase {
  std::string name;
  Index rows, columns;
  std::vector<std::int32_t> ends;
  std::uint32_t spread;  ///< scales are 2^0 to 2^(spread - 1)
  std::vector<std::string> flags;
  int level = 0;
};

const std::vector<TransposeCase>& transpose_cases() {
  static const std::vector<TransposeCase> cases = {
      {"tiles", 160, 160, {128, 160}, 4, {"random", "ragged"}, 0},
      {"edges",
       140,
       40,
       {0, 1, 1, 34, 133, 133},
       20,
       {"empty_group", "one_row", "first_group_empty", "last_group_empty", "rows_beyond_last_group",
        "rows_31_32_33", "underflow_beside_large"},
       0},
      {"one_group", 128, 128, {0, 128, 128}, 2, {"all_rows_to_one_group", "empty_group"}, 1},
      {"boundary", 200, 130, {130, 200}, 9, {"boundary_inside_tile", "ragged"}, 1},
      {"nothing", 0, 64, {0, 0}, 1, {"empty", "empty_group"}, 1},
      {"large", 1024, 1024, {100, 612, 1024}, 6, {"random"}, 2},
  };
  return cases;
}

NamedTensors operands(const TransposeCase& c, const InputStream& in) {
  NamedTensors tensors = one("codes", in.bits("codes", Dtype::u8, {c.rows, c.columns}));
  Tensor scales = in.bits("scales", Dtype::f32, {c.rows, (c.columns + 127) / 128});
  for (Index i = 0; i < scales.elements(); ++i) {
    std::uint32_t& bits = scales.as<std::uint32_t>()[i];
    // A zero scale is a padding row's.
    bits = bits % 16 == 15 ? 0u : (127u + (bits >> 8) % c.spread) << 23;
  }
  tensors.emplace("scales", std::move(scales));
  Tensor ends(Dtype::i32, {static_cast<Index>(c.ends.size())});
  std::copy(c.ends.begin(), c.ends.end(), ends.as<std::int32_t>());
  tensors.emplace("group_ends", std::move(ends));
  return tensors;
}

}  // namespace

std::vector<SuiteCase> transpose_cases(int level) {
  std::vector<SuiteCase> cases;
  for (const TransposeCase& c : transpose_cases()) {
    for (const std::string underflow : {"round", "keep_mantissa", "flush"}) {
      if (c.level > level) continue;
      add_case(cases, "transpose." + c.name + "." + underflow, "scaling_aware_transpose",
               {{"underflow", underflow}}, c.flags,
               [c](const InputStream& in) { return operands(c, in); });
    }
  }
  return cases;
}

}  // namespace mxo
