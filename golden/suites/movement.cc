// Cases of pad_groups, unpad_groups, permute_indices, permute and unpermute.
#include <algorithm>

#include "golden/suites/case_list.h"
#include "golden/suites/families.h"
#include "ops/pad_groups.h"

namespace mxo {
namespace {

constexpr Index kColumns = 24;

struct PaddingCase {
  std::string name;
  Index rows;
  std::vector<std::int32_t> ends;
  Index alignment;
  std::vector<std::string> flags;
  int level = 0;
};

const std::vector<PaddingCase>& padding_cases() {
  static const std::vector<PaddingCase> cases = {
      {"even", 96, {32, 64, 96}, 32, {}, 0},
      {"edges",
       100,
       {0, 1, 1, 34, 97, 97},
       32,
       {"empty_group", "one_row", "first_group_empty", "last_group_empty", "rows_beyond_last_group",
        "rows_31_32_33", "boundary_inside_tile"},
       0},
      {"one_expert", 40, {0, 40, 40}, 16, {"all_rows_to_one_group", "empty_group"}, 0},
      {"by_7", 50, {13, 13, 50}, 7, {"empty_group", "ragged"}, 1},
      {"by_1", 9, {2, 9}, 1, {}, 1},
      {"by_128", 200, {31, 63, 96, 200}, 128, {"rows_31_32_33"}, 1},
      {"nothing", 0, {0, 0}, 32, {"empty", "empty_group"}, 1},
      {"unused", 5, {0, 0}, 32, {"empty_group", "rows_beyond_last_group"}, 1},
      {"large", 4096, {700, 1500, 1500, 4000}, 128, {"rows_beyond_last_group"}, 2},
  };
  return cases;
}

Tensor integers_of(const std::vector<std::int32_t>& values) {
  Tensor tensor(Dtype::i32, {static_cast<Index>(values.size())});
  std::copy(values.begin(), values.end(), tensor.as<std::int32_t>());
  return tensor;
}

/// Where pad_groups puts each group.
Tensor padded_starts(const PaddingCase& c) {
  std::vector<std::int32_t> starts;
  Index at = 0;
  Index before = 0;
  for (const std::int32_t end : c.ends) {
    starts.push_back(static_cast<std::int32_t>(at));
    at += round_up(end - before, c.alignment);
    before = end;
  }
  return integers_of(starts);
}

void add_padding(std::vector<SuiteCase>& cases, const PaddingCase& c, Dtype dtype) {
  const std::string tail = "." + c.name + "." + std::string(name_of(dtype));
  add_case(cases, "pad" + tail, "pad_groups", {{"alignment", std::to_string(c.alignment)}}, c.flags,
           [c, dtype](const InputStream& in) {
             NamedTensors tensors = one("x", in.bits("x", dtype, {c.rows, kColumns}));
             tensors.emplace("group_ends", integers_of(c.ends));
             return tensors;
           });
  const Index padded = padded_rows(c.rows, static_cast<Index>(c.ends.size()), c.alignment);
  add_case(cases, "unpad" + tail, "unpad_groups", {{"rows", std::to_string(c.rows)}}, c.flags,
           [c, dtype, padded](const InputStream& in) {
             NamedTensors tensors = one("y", in.bits("y", dtype, {padded, kColumns}));
             tensors.emplace("group_ends", integers_of(c.ends));
             tensors.emplace("padded_starts", padded_starts(c));
             return tensors;
           });
}

struct CountCase {
  std::string name;
  std::vector<std::int32_t> counts;
  Index experts;
  Index alignment;
  Index max_len;
  std::vector<std::string> flags;
  int level = 0;
};

const std::vector<CountCase>& count_cases() {
  static const std::vector<CountCase> cases = {
      {"two_ranks", {4, 2, 1, 3, 1, 2, 3, 4}, 4, 8, 56, {}, 0},
      {"edges", {0, 1, 32, 0, 0, 31, 33, 0}, 4, 32, 225, {"empty_group", "rows_31_32_33"}, 0},
      {"one_expert", {17}, 1, 16, 40, {"all_rows_to_one_group"}, 0},
      {"nothing", {0, 0, 0}, 3, 5, 15, {"empty", "empty_group"}, 1},
      {"no_slack", {3, 5, 2, 6}, 2, 1, 16, {}, 1},
  };
  return cases;
}

struct IndexCase {
  std::string name;
  Index rows;
  std::vector<std::int32_t> indices;
  std::vector<std::string> flags;
};

const std::vector<IndexCase>& index_cases() {
  static const std::vector<IndexCase> cases = {
      {"runs", 8, {4, 5, 6, -1, -1, 0, 1, -1, 7, 2, 3}, {}},
      {"reversed", 6, {5, 4, 3, 2, 1, 0}, {}},
      {"padding_only", 3, {-1, -1, -1}, {"empty"}},
      {"few", 9, {8, -1, 2}, {}},
      {"nothing", 4, {}, {"empty"}},
  };
  return cases;
}

void add_moves(std::vector<SuiteCase>& cases, const IndexCase& c, Dtype dtype) {
  const std::string tail = "." + c.name + "." + std::string(name_of(dtype));
  const auto length = static_cast<Index>(c.indices.size());
  add_case(cases, "permute" + tail, "permute", {}, c.flags, [c, dtype](const InputStream& in) {
    NamedTensors tensors = one("x", in.bits("x", dtype, {c.rows, 20}));
    tensors.emplace("indices", integers_of(c.indices));
    return tensors;
  });
  add_case(cases, "unpermute" + tail, "unpermute", {{"rows", std::to_string(c.rows)}}, c.flags,
           [c, dtype, length](const InputStream& in) {
             NamedTensors tensors = one("y", in.bits("y", dtype, {length, 20}));
             tensors.emplace("indices", integers_of(c.indices));
             return tensors;
           });
}

}  // namespace

std::vector<SuiteCase> movement_cases(int level) {
  std::vector<SuiteCase> cases;
  for (const PaddingCase& c : padding_cases()) {
    if (c.level > level) continue;
    add_padding(cases, c, Dtype::bf16);
    if (level > 0) add_padding(cases, c, Dtype::u8);
    if (level > 0) add_padding(cases, c, Dtype::f32);
  }
  for (const CountCase& c : count_cases()) {
    if (c.level > level) continue;
    const auto ranks = static_cast<Index>(c.counts.size()) / c.experts;
    add_case(cases, "indices." + c.name, "permute_indices",
             {{"experts", std::to_string(c.experts)},
              {"ranks", std::to_string(ranks)},
              {"alignment", std::to_string(c.alignment)},
              {"max_len", std::to_string(c.max_len)}},
             c.flags,
             [c](const InputStream&) { return one("tokens_per_expert", integers_of(c.counts)); });
  }
  for (const IndexCase& c : index_cases()) {
    add_moves(cases, c, Dtype::bf16);
    if (level > 0) add_moves(cases, c, Dtype::u8);
    if (level > 0) add_moves(cases, c, Dtype::f32);
  }
  return cases;
}

}  // namespace mxo
