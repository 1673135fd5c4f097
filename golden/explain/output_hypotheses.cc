// The right numbers, written wrongly: truncation, lost rows, padding, signs.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "formats/scale_layout.h"
#include "golden/explain/hypotheses.h"

namespace mxo {
namespace {

using Rewrite = std::function<bool(const Call&, NamedTensors&, const NamedTensors&)>;

void add(std::vector<Hypothesis>& list, std::string name, std::string phrase, Rewrite rewrite) {
  list.push_back({std::move(name), std::move(phrase), Stage::output, [](Call&) { return true; },
                  std::move(rewrite)});
}

/// The f32 result cut to bf16, toward zero.
bool truncate(const Call&, NamedTensors& out, const NamedTensors&) {
  const auto y = out.find("y");
  if (y == out.end() || y->second.dtype() != Dtype::f32) return false;
  Tensor cut(Dtype::bf16, y->second.shape());
  for (Index i = 0; i < cut.elements(); ++i) {
    cut.template as<std::uint16_t>()[i] =
        static_cast<std::uint16_t>(y->second.as<std::uint32_t>()[i] >> 16);
  }
  y->second = std::move(cut);
  return true;
}

bool round_again(const Call&, NamedTensors& out, const NamedTensors&) {
  const auto y = out.find("y");
  if (y == out.end() || y->second.dtype() != Dtype::f32) return false;
  Tensor rounded(Dtype::bf16, y->second.shape());
  for (Index i = 0; i < rounded.elements(); ++i) {
    rounded.as<BF16>()[i] = encode<kBF16>(y->second.as<float>()[i]);
  }
  y->second = std::move(rounded);
  return true;
}

bool bf16_product(const Call& call) {
  return call.is_product() && call.set.text("out", "bf16") == "bf16";
}

void add_from_f32(std::vector<Hypothesis>& list, std::string name, std::string phrase,
                  Rewrite rewrite) {
  list.push_back({std::move(name), std::move(phrase), Stage::output,
                  [](Call& c) {
                    c.set.set("out", "f32");
                    return true;
                  },
                  std::move(rewrite)});
}

bool all_zero(const std::byte* from, std::size_t bytes) {
  return std::all_of(from, from + bytes, [](std::byte b) { return b == std::byte{0}; });
}

/// Groups whose actual rows are all zero are taken as missing.
bool lose_groups(const Call& call, NamedTensors& out, const NamedTensors& actual) {
  const auto y = out.find("y");
  const auto seen = actual.find("y");
  if (!call.is_product() || y == out.end() || seen == actual.end() ||
      seen->second.bytes() != y->second.bytes() || y->second.extent(0) == 0) {
    return false;
  }
  const Tensor& ends = call.input("group_ends");
  const std::size_t row = y->second.bytes() / static_cast<std::size_t>(y->second.extent(0));
  bool lost = false;
  std::size_t begin = 0;
  for (Index g = 0; g < ends.elements(); ++g) {
    const auto end = static_cast<std::size_t>(ends.as<std::int32_t>()[g]);
    const std::size_t bytes = (end - begin) * row;
    std::byte* rows = y->second.data() + begin * row;
    if (bytes > 0 && all_zero(seen->second.data() + begin * row, bytes) && !all_zero(rows, bytes)) {
      std::memset(rows, 0, bytes);
      lost = true;
    }
    begin = end;
  }
  return lost;
}

/// Rows between groups that hold the rows of x that follow, instead of zeros.
bool leave_padding(const Call& call, NamedTensors& out, const NamedTensors&) {
  if (call.op != "pad_groups") return false;
  const Tensor& x = call.input("x");
  const Tensor& ends = call.input("group_ends");
  Tensor& y = out.find("y")->second;
  const auto* starts = out.find("padded_starts")->second.as<std::int32_t>();
  const auto* padded = out.find("padded_ends")->second.as<std::int32_t>();
  if (x.extent(0) == 0) return false;
  const std::size_t row = x.bytes() / static_cast<std::size_t>(x.extent(0));
  Index begin = 0;
  for (Index g = 0; g < ends.elements(); ++g) {
    const Index end = ends.as<std::int32_t>()[g];
    for (Index r = starts[g] + end - begin; r < padded[g]; ++r) {
      const Index from = begin + r - starts[g];
      if (from >= x.extent(0)) continue;
      std::memcpy(y.data() + static_cast<std::size_t>(r) * row,
                  x.data() + static_cast<std::size_t>(from) * row, row);
    }
    begin = end;
  }
  return true;
}

/// Scales written as 128x4 tiles over the place of row-major ones.
bool write_tiles(const Call& call, NamedTensors& out, const NamedTensors&) {
  const auto scales = out.find("scales");
  if (call.op != "quantize" || scales == out.end() || scales->second.rank() < 2) return false;
  Tensor& linear = scales->second;
  const Index columns = linear.shape().back();
  const Index rows = linear.shape()[linear.shape().size() - 2];
  if (rows % kTileRows != 0 || columns % kTileColumns != 0 || rows * columns == 0) return false;
  Tensor tiles(linear.dtype(), linear.shape());
  for (Index at = 0; at < linear.elements(); at += rows * columns) {
    for (Index i = 0; i < rows * columns; ++i) {
      const Index to = blocked_offset(i / columns, i % columns, columns / kTileColumns);
      tiles.as<std::uint8_t>()[at + to] = linear.as<std::uint8_t>()[at + i];
    }
  }
  linear = std::move(tiles);
  return true;
}

/// Scale bytes one higher or lower than they should be, codes as they are.
Rewrite step_scales(int by) {
  return [by](const Call& call, NamedTensors& out, const NamedTensors&) {
    const auto scales = out.find("scales");
    if (call.op != "quantize" || scales == out.end()) return false;
    for (Index i = 0; i < scales->second.elements(); ++i) {
      auto& scale = scales->second.as<std::uint8_t>()[i];
      scale = static_cast<std::uint8_t>(scale + by);
    }
    return true;
  };
}

bool is_float_output(const Tensor& t) {
  return t.dtype() == Dtype::f32 || t.dtype() == Dtype::bf16;
}

/// Applies fn to the bits of every f32 or bf16 result; `sign` is their sign bit.
template <typename Fn>
Rewrite on_floats(Fn fn) {
  return [fn](const Call&, NamedTensors& out, const NamedTensors&) {
    bool any = false;
    for (auto& [name, t] : out) {
      if (!is_float_output(t)) continue;
      any = true;
      for (Index i = 0; i < t.elements(); ++i) {
        if (t.dtype() == Dtype::f32) {
          auto& word = t.template as<std::uint32_t>()[i];
          word = fn(word);
        } else {
          auto& half = t.template as<std::uint16_t>()[i];
          half = static_cast<std::uint16_t>(fn(static_cast<std::uint32_t>(half) << 16) >> 16);
        }
      }
    }
    return any;
  };
}

std::uint32_t without_subnormals(std::uint32_t word) {
  return (word & 0x7F800000u) == 0 ? word & 0x80000000u : word;
}
std::uint32_t without_nan(std::uint32_t word) {
  return (word & 0x7FFFFFFFu) > 0x7F800000u ? 0 : word;
}
std::uint32_t positive_zero(std::uint32_t word) { return word == 0x80000000u ? 0 : word; }

}  // namespace

void add_output_hypotheses(const Call& call, std::vector<Hypothesis>& list) {
  if (bf16_product(call)) {
    add_from_f32(list, "out=truncated", "the output is truncated to bf16 rather than rounded",
                 truncate);
    add_from_f32(list, "out=twice", "the sum is rounded to f32 before it is rounded to bf16",
                 round_again);
  }
  add(list, "group=missing", "rows of whole groups are left zero", lose_groups);
  add(list, "padding=stale", "padding rows hold the rows that follow instead of zeros",
      leave_padding);
  add(list, "scales=tiles", "the scales are written swizzled (128x4 tiles)", write_tiles);
  add(list, "scales+1", "every scale byte is one too high", step_scales(1));
  add(list, "scales-1", "every scale byte is one too low", step_scales(-1));
  add(list, "subnormals=0", "subnormal results are flushed to zero", on_floats(without_subnormals));
  add(list, "nan=0", "NaN results are turned into zero", on_floats(without_nan));
  add(list, "-0=+0", "negative zeros lose their sign", on_floats(positive_zero));
}

}  // namespace mxo
