// Probe operands from the counter-based generator: the same bytes on every machine.
#include "golden/fingerprint/probes.h"

#include <cmath>

#include "formats/error.h"
#include "formats/nearest_name.h"
#include "formats/philox.h"

namespace mxo {
namespace {

constexpr Index kRows = 48;
constexpr Index kColumns = 24;
constexpr Index kDepth = 2048;
constexpr std::uint64_t kSeed = 20261120;

constexpr ProbeKind kKinds[] = {
    {"fp8", OperandKind::fp8, "grouped_matmul", Dtype::e4m3,
     "y = x.codes w.codes^T of e4m3 codes with unit scales, to f32"},
    {"fp8_fnuz", OperandKind::fp8_fnuz, "grouped_matmul", Dtype::e4m3fnuz,
     "y = x.codes w.codes^T of e4m3fnuz codes with unit scales, to f32"},
    {"bf16", OperandKind::bf16, "grouped_matmul", Dtype::bf16, "y = x w^T of bf16, to f32"},
    {"mx", OperandKind::mx, "grouped_matmul", Dtype::e4m3,
     "y = x w^T of e4m3 codes with one e8m0 scale per 32 k, to f32"},
};

/// How far along K row r of x reaches.
Index reach(Index r) { return r < 16 ? 32 : r < 32 ? 256 : kDepth; }

/// A value with a random sign and significand and an exponent in [low, low + span).
float wide_value(std::uint32_t word, int low, int span) {
  const float significand = 1.0f + static_cast<float>(word >> 9 & 0x7F) * 0x1p-7f;
  const int exponent = low + static_cast<int>(word >> 20) % span;
  return std::ldexp(word & 1 ? -significand : significand, exponent);
}

float probe_value(const ProbeKind& kind, bool w, Index row, Index k) {
  const auto word = philox(static_cast<std::uint64_t>(row * kDepth + k), w ? 2 : 1, kSeed).word[0];
  if (kind.kind == OperandKind::bf16) {
    // Rows 10-15 of x against columns 16-23: products about 2^-128 down to 2^-150.
    const bool small = w ? row >= 16 : row >= 10 && row < 16;
    if (small) return wide_value(word, -74, 11);
    return wide_value(word, -9, 18);
  }
  return wide_value(word, -5, kind.kind == OperandKind::mx ? 8 : 11);
}

template <typename Code>
void fill(Tensor& t, const ProbeKind& kind, bool w) {
  for (Index i = 0; i < t.elements(); ++i) {
    const Index row = i / kDepth;
    const Index k = i % kDepth;
    if (!w && k >= reach(row)) continue;
    t.as<Code>()[i] = encode<Code::spec>(probe_value(kind, w, row, k), Overflow::saturate);
  }
}

Tensor operand(const ProbeKind& kind, bool w) {
  const bool codes = kind.format != Dtype::bf16;
  Tensor t(codes ? Dtype::u8 : Dtype::bf16,
           w ? std::vector<Index>{1, kColumns, kDepth} : std::vector<Index>{kRows, kDepth});
  if (!codes) {
    fill<BF16>(t, kind, w);
  } else {
    visit_minifloat8(kind.format,
                     [&](auto tag) { fill<typename decltype(tag)::type>(t, kind, w); });
  }
  return t;
}

Tensor scales(const ProbeKind& kind, bool w) {
  const Index rows = w ? kColumns : kRows;
  if (kind.kind != OperandKind::mx) {
    Tensor t(Dtype::f32, w ? std::vector<Index>{1, rows} : std::vector<Index>{rows});
    for (Index i = 0; i < rows; ++i) t.as<float>()[i] = 1.0f;
    return t;
  }
  Tensor t(Dtype::u8,
           w ? std::vector<Index>{1, rows, kDepth / 32} : std::vector<Index>{rows, kDepth / 32});
  for (Index i = 0; i < t.elements(); ++i) {
    const auto word = philox(static_cast<std::uint64_t>(i), w ? 4 : 3, kSeed).word[0];
    t.as<std::uint8_t>()[i] = static_cast<std::uint8_t>(124 + word % 7);
  }
  return t;
}

}  // namespace

std::span<const ProbeKind> probe_kinds() { return kKinds; }

const ProbeKind& probe_kind(std::string_view name) {
  std::vector<std::string_view> known;
  for (const ProbeKind& kind : kKinds) {
    if (kind.name == name) return kind;
    known.push_back(kind.name);
  }
  throw Error(Fault::argument, unknown_name("probe", name, known));
}

NamedTensors make_probe(const ProbeKind& kind) {
  NamedTensors probe;
  const bool codes = kind.format != Dtype::bf16;
  probe.emplace(codes ? "x.codes" : "x", operand(kind, false));
  probe.emplace(codes ? "w.codes" : "w", operand(kind, true));
  if (codes) {
    probe.emplace("x.scales", scales(kind, false));
    probe.emplace("w.scales", scales(kind, true));
  }
  Tensor ends(Dtype::i32, {1});
  ends.as<std::int32_t>()[0] = kRows;
  probe.emplace("group_ends", std::move(ends));
  return probe;
}

Parameters probe_parameters(const ProbeKind& kind, Dtype out) {
  Parameters set;
  for (const char* key : {"format_x", "format_w"}) {
    if (kind.format != Dtype::bf16) set.set(key, name_of(kind.format));
  }
  set.set("out", out == Dtype::bf16 ? "bf16" : "f32");
  return set;
}

}  // namespace mxo
