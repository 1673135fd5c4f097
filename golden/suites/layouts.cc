// Cases of swizzle_scales and unswizzle_scales.
#include <algorithm>

#include "golden/suites/case_list.h"
#include "golden/suites/families.h"
#include "ops/scale_layouts.h"

namespace mxo {
namespace {

struct LayoutCase {
  std::string_view name;
  ScaleLayout layout;
  std::vector<Index> scales;
  std::vector<std::int32_t> ends;
  std::vector<std::string> flags;
  int level = 0;
};

const std::vector<LayoutCase>& layout_cases() {
  using enum ScaleLayout;
  static const std::vector<LayoutCase> cases = {
      {"tile", blocked, {128, 4}, {}, {}, 0},
      {"one", blocked, {1, 1}, {}, {"one_row", "ragged"}, 0},
      {"ragged", blocked, {200, 7}, {}, {"ragged"}, 0},
      {"rows_31", blocked, {31, 4}, {}, {"rows_31_32_33"}, 1},
      {"rows_32", blocked, {32, 4}, {}, {"rows_31_32_33"}, 1},
      {"rows_33", blocked, {33, 5}, {}, {"rows_31_32_33"}, 1},
      {"empty", blocked, {0, 4}, {}, {"empty"}, 1},
      {"wide", blocked, {129, 224}, {}, {"ragged"}, 1},
      {"large", blocked, {4096, 224}, {}, {}, 2},
      {"groups", m_groups, {300, 8}, {100, 228, 300}, {"boundary_inside_tile"}, 0},
      {"edges",
       m_groups,
       {300, 6},
       {0, 1, 1, 129, 290, 290},
       {"empty_group", "one_row", "first_group_empty", "last_group_empty", "rows_beyond_last_group",
        "boundary_inside_tile", "ragged"},
       1},
      {"one_group", m_groups, {256, 4}, {0, 256, 256}, {"all_rows_to_one_group"}, 1},
      {"groups", k_groups, {200, 20}, {4, 9, 20}, {"ragged"}, 0},
      {"edges",
       k_groups,
       {129, 24},
       {0, 1, 1, 7, 22, 22},
       {"empty_group", "first_group_empty", "last_group_empty", "rows_beyond_last_group"},
       1},
      {"experts", per_group_3d, {3, 160, 6}, {}, {"ragged"}, 0},
      {"large", per_group_3d, {8, 2048, 56}, {}, {}, 2},
  };
  return cases;
}

constexpr std::string_view kLayoutNames[] = {"blocked", "m_groups", "k_groups", "per_group_3d"};

NamedTensors with_ends(NamedTensors tensors, const std::vector<std::int32_t>& ends) {
  if (ends.empty()) return tensors;
  Tensor tensor(Dtype::i32, {static_cast<Index>(ends.size())});
  std::copy(ends.begin(), ends.end(), tensor.as<std::int32_t>());
  tensors.emplace("group_ends", std::move(tensor));
  return tensors;
}

}  // namespace

std::vector<SuiteCase> layouts_cases(int level) {
  std::vector<SuiteCase> cases;
  for (const LayoutCase& c : layout_cases()) {
    if (c.level > level) continue;
    const std::string layout(kLayoutNames[static_cast<std::size_t>(c.layout)]);
    const std::string tail = "." + layout + "." + std::string(c.name);
    add_case(cases, "swizzle" + tail, "swizzle_scales", {{"layout", layout}}, c.flags,
             [c](const InputStream& in) {
               return with_ends(one("scales", in.bits("scales", Dtype::u8, c.scales)), c.ends);
             });
    if (c.scales[0] == 0) continue;  // nothing to read a shape back from
    // Random bytes, padding included: what is read back may not depend on the padding.
    const std::vector<Index> blocked =
        blocked_shape(c.layout, c.scales, static_cast<Index>(c.ends.size()));
    const auto rank = c.scales.size();
    add_case(cases, "unswizzle" + tail, "unswizzle_scales",
             {{"layout", layout},
              {"rows", std::to_string(c.scales[rank - 2])},
              {"columns", std::to_string(c.scales[rank - 1])}},
             c.flags, [c, blocked](const InputStream& in) {
               return with_ends(one("blocked", in.bits("blocked", Dtype::u8, blocked)), c.ends);
             });
  }
  return cases;
}

}  // namespace mxo
