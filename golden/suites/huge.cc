// Cases of tensors beyond 2^31 elements, of which the file holds some rows.
#include "golden/suites/case_list.h"
#include "golden/suites/families.h"

namespace mxo {
namespace {

// 140000 x 16384 elements: 2^31 lie before row 131072, 2^32 bytes of bf16 as well.
constexpr Index kHugeRows = 140000;
constexpr Index kHugeColumns = 16384;

/// Either side of 2^30, 2^31 and 2^32 bytes or elements, and both ends.
const std::vector<Index>& sampled_rows() {
  static const std::vector<Index> rows{0,     1,      32767,  32768,  65535, 65536,
                                       70000, 131071, 131072, 131073, 139999};
  return rows;
}

SampledFrom sampled(const std::string& id, std::string_view operand) {
  return {{kHugeRows, kHugeColumns}, sampled_rows(), InputStream(0, id).stream(operand), {}};
}

Tensor rows_of_x(const InputStream& in) {
  return in.normal_rows("x", Dtype::bf16, kHugeColumns, sampled_rows());
}

void add_huge(std::vector<SuiteCase>& cases, const std::string& name, const std::string& op,
              Settings set, MakeInputs inputs) {
  const std::string id = "huge." + name;
  add_case(cases, id, op, std::move(set), {"beyond_32_bits"}, std::move(inputs));
  cases.back().sampled.emplace("x", sampled(id, "x"));
}

}  // namespace

std::vector<SuiteCase> huge_cases(int level) {
  std::vector<SuiteCase> cases;
  const MakeInputs x = [](const InputStream& in) { return one("x", rows_of_x(in)); };
  add_huge(cases, "quantize.1x32", "quantize", {}, x);
  if (level < 1) return cases;
  add_huge(cases, "quantize.1x128", "quantize", {{"block", "1x128"}, {"rule", "flow"}}, x);
  add_huge(cases, "swiglu", "swiglu", {{"rounding", "bf16"}}, x);
  add_huge(cases, "cast", "cast", {{"out", "f32"}}, x);
  // Rows of two experts; 70000 is the first of the second.
  add_huge(cases, "product", "grouped_matmul", {}, [](const InputStream& in) {
    NamedTensors tensors = one("x", rows_of_x(in));
    tensors.emplace("w", in.normal("w", Dtype::bf16, {2, 6, kHugeColumns}));
    tensors.emplace("group_ends", integers({6, 11}));
    return tensors;
  });
  cases.back().sampled.emplace("group_ends", SampledFrom{{2}, {}, 0, {70000, kHugeRows}});
  return cases;
}

}  // namespace mxo
