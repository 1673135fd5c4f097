// Cases of encode and decode.
#include "golden/suites/case_list.h"
#include "golden/suites/edge_values.h"
#include "golden/suites/families.h"

namespace mxo {
namespace {

constexpr std::string_view kFormats[] = {"e4m3", "e5m2", "e4m3fnuz", "e5m2fnuz"};

NamedTensors boundaries(Dtype format) {
  const std::vector<float> values =
      format == Dtype::e8m0 ? e8m0_boundaries() : encode_boundaries(format);
  return one("x", tensor_of(values, Dtype::f32, {static_cast<Index>(values.size())}));
}

/// Every 16-bit pattern, as a [256, 256] tensor.
NamedTensors every_pattern(Dtype dtype) {
  Tensor tensor(dtype, {256, 256});
  for (int i = 0; i < 65536; ++i) tensor.as<std::uint16_t>()[i] = static_cast<std::uint16_t>(i);
  return one("x", std::move(tensor));
}

NamedTensors every_code() {
  Tensor tensor(Dtype::u8, {256});
  for (int i = 0; i < 256; ++i) tensor.as<std::uint8_t>()[i] = static_cast<std::uint8_t>(i);
  return one("codes", std::move(tensor));
}

std::vector<std::string> encode_flags(std::string_view format) {
  std::vector<std::string> flags{
      "signed_zero", "smallest_subnormal", "largest_subnormal", "smallest_normal",
      "ties",        "max_finite",         "one_inf",           "one_nan"};
  if (format == "e4m3") flags.push_back("ties_448_464_480");
  if (format == "e4m3fnuz") flags.push_back("ties_240_248");
  return flags;
}

void add_encode(std::vector<SuiteCase>& cases, std::string_view name, const std::string& overflow,
                const std::string& nan, int level) {
  const std::string format(name);
  const Dtype dtype = dtype_named(name);
  const Settings set{{"format", format}, {"overflow", overflow}, {"nan", nan}};
  const std::string id = "encode." + format + "." + overflow + "." + nan;
  add_case(cases, id + ".boundaries", "encode", set, encode_flags(name),
           [dtype](const InputStream&) { return boundaries(dtype); });
  if (level < 1) return;
  for (const Dtype wide : {Dtype::bf16, Dtype::f16}) {
    add_case(cases, id + ".every_" + std::string(name_of(wide)), "encode", set, encode_flags(name),
             [wide](const InputStream&) { return every_pattern(wide); });
  }
  if (level < 2) return;
  add_case(cases, id + ".bits", "encode", set, {"random"}, [](const InputStream& in) {
    return one("x", in.bits("x", Dtype::f32, {1024, 1024}));
  });
  add_case(cases, id + ".wide", "encode", set, {"random"}, [](const InputStream& in) {
    return one("x", in.wide("x", Dtype::f32, {1024, 1024}, 20));
  });
}

void add_e8m0(std::vector<SuiteCase>& cases, int level) {
  for (const std::string rounding : {"nearest", "up", "zero"}) {
    for (const std::string overflow : {"saturate", "nonfinite"}) {
      if (level < 1 && overflow == "nonfinite") continue;
      const Settings set{{"format", "e8m0"}, {"overflow", overflow}, {"rounding", rounding}};
      const std::string id = "encode.e8m0." + rounding + "." + overflow;
      add_case(cases, id + ".boundaries", "encode", set,
               {"scale_boundaries", "scale_byte_0", "scale_byte_1", "scale_byte_254",
                "scale_byte_255", "one_inf", "one_nan"},
               [](const InputStream&) { return boundaries(Dtype::e8m0); });
    }
  }
}

}  // namespace

std::vector<SuiteCase> formats_cases(int level) {
  std::vector<SuiteCase> cases;
  for (const std::string_view format : {"e4m3", "e5m2", "e4m3fnuz", "e5m2fnuz", "e8m0"}) {
    std::vector<std::string> flags{"all_codes"};
    if (format.ends_with("fnuz")) flags.push_back("fnuz_80");
    add_case(cases, "decode." + std::string(format), "decode", {{"format", std::string(format)}},
             std::move(flags), [](const InputStream&) { return every_code(); });
  }
  for (const std::string_view format : kFormats) {
    const bool one_nan = format.ends_with("fnuz");
    for (const std::string overflow : {"saturate", "nonfinite"}) {
      for (const std::string nan : {"positive", "signed"}) {
        const bool extra = overflow == "nonfinite" || nan == "signed";
        if ((level < 1 && extra) || (one_nan && nan == "signed")) continue;
        add_encode(cases, format, overflow, nan, level);
      }
    }
  }
  add_e8m0(cases, level);
  return cases;
}

}  // namespace mxo
