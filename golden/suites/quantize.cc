// Cases of quantize and dequantize.
#include "golden/suites/case_list.h"
#include "golden/suites/edge_values.h"
#include "golden/suites/families.h"

namespace mxo {
namespace {

constexpr std::string_view kFormats[] = {"e4m3", "e5m2", "e4m3fnuz", "e5m2fnuz"};
constexpr std::string_view kModes[] = {"rceil", "floor", "ceil", "even"};
constexpr std::string_view kRules[] = {"torchao", "te", "ocp", "torchao_cuda"};

/// One point of the product of all parameters.
struct Choice {
  std::string_view format = "e4m3";
  std::string_view mode = "rceil";
  std::string_view rule = "torchao";
  std::string_view axis = "k";  ///< of blocks, k: 1x32; r: 32x1; t: 32x1, transposed
  Dtype dtype = Dtype::f32;

  Settings settings() const {
    Settings set{{"format", std::string(format)},
                 {"scale_mode", std::string(mode)},
                 {"rule", std::string(rule)},
                 {"block", axis == "k" ? "1x32" : "32x1"}};
    if (axis == "t") set.emplace("transpose", "true");
    return set;
  }
  std::string id(std::string_view what) const {
    std::string text = "quantize." + std::string(what);
    for (const std::string_view part : {name_of(dtype), format, mode, rule, axis}) {
      text += ".";
      text += part;
    }
    return text;
  }
  BlockPlacement placement() const {
    return axis == "k" ? BlockPlacement::along_rows : BlockPlacement::along_columns;
  }
};

/// The least level at which the edges are run under this choice.
int level_of(const Choice& c) {
  const bool plain = c.rule == "torchao" && c.axis == "k";
  if (plain && c.format == "e4m3" && (c.mode == "rceil" || c.mode == "floor")) return 0;
  const int departures = (c.rule != "torchao") + (c.axis != "k") + (c.dtype != Dtype::f32);
  return departures <= 1 ? 1 : 2;
}

void add_edges(std::vector<SuiteCase>& cases, const Choice& c) {
  const Dtype format = dtype_named(c.format);
  add_case(cases, c.id("edges"), "quantize", c.settings(), flags_of(edge_blocks(format)),
           [format, c](const InputStream&) {
             return one("x", place_blocks(edge_blocks(format), c.dtype, c.placement()));
           });
}

void add_boundaries(std::vector<SuiteCase>& cases, const Choice& c, int step) {
  const Dtype format = dtype_named(c.format);
  add_case(cases, c.id(step == 1 ? "every_boundary" : "boundaries"), "quantize", c.settings(),
           {"scale_boundaries"}, [format, c, step](const InputStream&) {
             return one("x", place_blocks(boundary_blocks(format, step), c.dtype, c.placement()));
           });
}

void add_random(std::vector<SuiteCase>& cases, const Choice& c, const std::string& name,
                std::vector<Index> shape, int spread, std::vector<std::string> flags) {
  add_case(cases, c.id(name), "quantize", c.settings(), std::move(flags),
           [c, shape, spread](const InputStream& in) {
             return one("x", in.wide("x", c.dtype, shape, spread));
           });
}

void add_shapes(std::vector<SuiteCase>& cases, int level) {
  for (const std::string_view axis : {"k", "r", "t"}) {
    const Choice c{.axis = axis};
    add_random(cases, c, "one_block",
               axis == "k" ? std::vector<Index>{1, 32} : std::vector<Index>{32, 1}, 0,
               {"one_row", "random"});
    if (level < 1) continue;
    add_random(cases, c, "no_rows", {0, 64}, 0, {"empty"});
    add_random(cases, c, "no_columns", {64, 0}, 0, {"empty"});
    add_random(cases, c, "normal", {96, 160}, 0, {"random"});
    add_random(cases, c, "batch", {3, 64, 96}, 8, {"random"});
    for (const std::string_view format : kFormats) {
      add_random(cases, {.format = format, .axis = axis, .dtype = Dtype::bf16}, "wide", {64, 256},
                 60, {"random"});
    }
    if (level < 2) continue;
    add_random(cases, {.axis = axis, .dtype = Dtype::bf16}, "large", {1024, 2048}, 4, {"random"});
    add_random(cases, {.mode = "floor", .axis = axis, .dtype = Dtype::bf16}, "large", {2048, 1024},
               40, {"random"});
  }
}

/// Scales in 128x4 tiles, which they do not fill: one matrix, and one of each expert.
void add_blocked(std::vector<SuiteCase>& cases) {
  Choice c;
  Settings set = c.settings();
  set.emplace("scale_layout", "blocked");
  for (const auto& [name, shape] : {std::pair{"blocked", std::vector<Index>{200, 224}},
                                    std::pair{"blocked_experts", std::vector<Index>{2, 40, 96}}}) {
    add_case(cases, c.id(name), "quantize", set, {"ragged", "random"},
             [c, shape = shape](const InputStream& in) {
               return one("x", in.wide("x", c.dtype, shape, 4));
             });
  }
}

/// Every code under every scale byte: codes [256, 256], scales [256, 8].
NamedTensors every_product() {
  Tensor codes(Dtype::u8, {256, 256});
  Tensor scales(Dtype::u8, {256, 8});
  for (int r = 0; r < 256; ++r) {
    for (int c = 0; c < 256; ++c) {
      codes.as<std::uint8_t>()[r * 256 + c] = static_cast<std::uint8_t>(c);
    }
    for (int b = 0; b < 8; ++b) scales.as<std::uint8_t>()[r * 8 + b] = static_cast<std::uint8_t>(r);
  }
  NamedTensors tensors = one("codes", std::move(codes));
  tensors.emplace("scales", std::move(scales));
  return tensors;
}

NamedTensors random_codes(const InputStream& in) {
  NamedTensors tensors = one("codes", in.bits("codes", Dtype::u8, {64, 96}));
  tensors.emplace("scales", in.bits("scales", Dtype::u8, {2, 96}));
  return tensors;
}

void add_dequantize(std::vector<SuiteCase>& cases, int level) {
  for (const std::string format : {"e4m3", "e5m2", "e4m3fnuz", "e5m2fnuz"}) {
    std::vector<std::string> flags{"all_codes", "scale_byte_0", "scale_byte_1", "scale_byte_254",
                                   "scale_byte_255"};
    if (format.ends_with("fnuz")) flags.push_back("fnuz_80");
    for (const std::string out : {"bf16", "f32"}) {
      if (level < 1 && (out == "f32" || format != "e4m3")) continue;
      add_case(cases, "dequantize.every." + format + "." + out, "dequantize",
               {{"format", format}, {"out", out}}, flags,
               [](const InputStream&) { return every_product(); });
      if (level < 1) continue;
      add_case(cases, "dequantize.rows." + format + "." + out, "dequantize",
               {{"format", format}, {"out", out}, {"block", "32x1"}}, {"random"}, random_codes);
    }
  }
}

}  // namespace

std::vector<SuiteCase> quantize_cases(int level) {
  std::vector<SuiteCase> cases;
  for (const Dtype dtype : {Dtype::f32, Dtype::bf16}) {
    for (const std::string_view format : kFormats) {
      for (const std::string_view mode : kModes) {
        for (const std::string_view rule : kRules) {
          for (const std::string_view axis : {"k", "r", "t"}) {
            const Choice c{format, mode, rule, axis, dtype};
            if (level_of(c) <= level) add_edges(cases, c);
            if (axis != "k" || dtype != Dtype::f32) continue;
            if (level >= 1) add_boundaries(cases, c, 16);
            if (level >= 2) add_boundaries(cases, c, 1);
          }
        }
      }
    }
  }
  add_shapes(cases, level);
  if (level >= 1) add_blocked(cases);
  add_dequantize(cases, level);
  return cases;
}

}  // namespace mxo
