// Cases of row-wise and block-wise quantisation.
#include "golden/suites/case_list.h"
#include "golden/suites/families.h"

namespace mxo {
namespace {

/// Rows of many magnitudes, with edges planted in the first of them.
Tensor rows_with_edges(const InputStream& in, Dtype dtype, std::vector<Index> shape) {
  Tensor tensor = in.wide("x", dtype, std::move(shape), 12);
  const Index columns = tensor.extent(tensor.rank() - 1);
  const Index rows = columns == 0 ? 0 : tensor.elements() / columns;
  const std::uint32_t planted[] = {0x7F800000u, 0x7FC00000u, 0x7F7F0000u, 0xFF800000u};
  visit_wide_float(dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    T* x = tensor.as<T>();
    const auto fill = [&](Index row, float value) {
      for (Index c = 0; c < columns && row < rows; ++c) x[row * columns + c] = from_float<T>(value);
    };
    fill(0, 0.0f);
    fill(1, 0x1p-133f);
    fill(2, 0x1.fep127f);
    for (Index i = 0; i < 4 && 4 + i < rows && columns > 0; ++i) {
      x[(4 + i) * columns + i % columns] =
          from_float<T>(bit_cast<float>(planted[static_cast<std::size_t>(i)]));
    }
  });
  return tensor;
}

const std::vector<std::string> kRowFlags{
    "zero_block", "smallest_subnormal", "max_finite", "one_inf", "one_nan", "ragged"};

MakeInputs grouped(Dtype dtype, std::vector<Index> shape, Tensor ends) {
  return [dtype, shape, ends](const InputStream& in) {
    NamedTensors tensors = one("x", rows_with_edges(in, dtype, shape));
    tensors.emplace("group_ends", ends);
    return tensors;
  };
}

void add_rowwise(std::vector<SuiteCase>& cases, const std::string& format, Dtype dtype,
                 const std::string& power) {
  const std::string tail = "." + std::string(name_of(dtype)) + "." + format +
                           (power == "down" ? ".power_of_2" : ".any_scale");
  const Settings set{
      {"format", format}, {"power_of_2", power}, {"rule", "torchao"}, {"block", "1xK"}};
  add_case(cases, "rowwise.k" + tail, "quantize", set, kRowFlags, [dtype](const InputStream& in) {
    return one("x", rows_with_edges(in, dtype, {12, 200}));
  });
  Settings columns = set;
  columns["block"] = "Rx1";
  add_case(cases, "rowwise.r" + tail, "quantize", columns,
           {"empty_group", "one_row", "first_group_empty", "last_group_empty",
            "rows_beyond_last_group", "one_nan", "one_inf"},
           grouped(dtype, {80, 40}, integers({0, 1, 33, 33, 72, 72})));
}

void add_blockwise(std::vector<SuiteCase>& cases, const std::string& format, Dtype dtype,
                   const std::string& rule) {
  for (const std::string block : {"1x128", "128x1", "128x128"}) {
    const Settings set{{"format", format}, {"block", block}, {"rule", rule}};
    const std::string tail = "." + std::string(name_of(dtype)) + "." + format + "." + rule;
    add_case(cases, "blockwise." + block + tail, "quantize", set, kRowFlags,
             [dtype](const InputStream& in) {
               return one("x", rows_with_edges(in, dtype, {200, 300}));
             });
    if (block != "128x1") continue;
    add_case(cases, "blockwise.groups" + tail, "quantize", set,
             {"empty_group", "one_row", "boundary_inside_tile", "rows_beyond_last_group"},
             grouped(dtype, {300, 40}, integers({1, 1, 130, 290})));
  }
}

}  // namespace

std::vector<SuiteCase> f32_scales_cases(int level) {
  std::vector<SuiteCase> cases;
  for (const std::string format : {"e4m3", "e5m2", "e4m3fnuz", "e5m2fnuz"}) {
    for (const Dtype dtype : {Dtype::f32, Dtype::bf16}) {
      const int least = format == "e4m3" && dtype == Dtype::bf16 ? 0 : format == "e4m3" ? 1 : 2;
      if (level < least) continue;
      for (const std::string power : {"down", "none"}) add_rowwise(cases, format, dtype, power);
      for (const std::string rule : {"torchao", "te", "flow"}) {
        if (level < 1 && rule != "torchao") continue;
        add_blockwise(cases, format, dtype, rule);
      }
    }
  }
  return cases;
}

}  // namespace mxo
