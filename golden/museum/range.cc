// Faults at the ends of ranges: scales that under- or overflow on the way, tails and lines of zeros
// that are read or left.
#include <algorithm>
#include <cstring>

#include "formats/scale_layout.h"
#include "golden/judge/elements.h"
#include "golden/museum/faults.h"
#include "golden/museum/operands.h"

namespace mxo {
namespace {

/// All f32 scales of one factor multiplied by a power of two.
void enlarge(Call& call, const char* name, float factor) {
  Tensor t = call.input(name);
  for (Index i = 0; i < t.elements(); ++i) t.as<float>()[i] *= factor;
  call.replace(name, std::move(t));
}

Call small_operands(Backend& b, World&, std::uint64_t seed) {
  Call call = blockwise_product(b, seed);
  enlarge(call, "x.scales", 0x1p-72f);
  enlarge(call, "w.scales", 0x1p-56f);
  return call;
}

Call huge_operands(Backend& b, World&, std::uint64_t seed) {
  Call call = rowwise_product(b, seed);
  enlarge(call, "x.scales", 0x1p117f);
  enlarge(call, "w.scales", 0x1p-110f);
  return call;
}

/// A block's sum in f32, scaled.
using Scaled = float (*)(float sum, float sx, float sw);

float joined_first(float sum, float sx, float sw) { return sum * (sx * sw); }
float joined_and_flushed(float sum, float sx, float sw) {
  const float s = sx * sw;
  return s < 0x1p-126f ? 0.0f : sum * s;
}
float one_by_one(float sum, float sx, float sw) { return sum * sx * sw; }

/// y of a product of e4m3 codes with f32 scales (a row's, or those of blocks of 128), block by
/// block: `wrong` where it differs from what `sound` gives, else as it is right.
Answer scaled_by(const Call& call, const NamedTensors& right, Scaled sound, Scaled wrong) {
  if (!call.has("x.scales") || call.input("x.scales").dtype() != Dtype::f32 ||
      call.set.text("format_x", "e4m3") != "e4m3" || call.set.text("format_w", "e4m3") != "e4m3" ||
      right.at("y").dtype() != Dtype::bf16) {
    return std::nullopt;
  }
  const Tensor& x = call.input("x.codes");
  const Tensor& w = call.input("w.codes");
  const Tensor& sx = call.input("x.scales");
  const Tensor& sw = call.input("w.scales");
  const Index k = x.extent(1);
  const Index n = w.extent(1);
  const bool tiles = sw.rank() == 3;
  if (tiles && sx.rank() != 2) return std::nullopt;
  const Index block = tiles ? Index{128} : k;
  const std::vector<Index> ends = parts_of(call).ends;
  NamedTensors out = right;
  Tensor& y = out.at("y");
  bool any = false;
  for (std::size_t group = 0; group < ends.size(); ++group) {
    const auto g = static_cast<Index>(group);
    for (Index r = begin_of(ends, group); r < ends[group]; ++r) {
      for (Index j = 0; j < n; ++j) {
        float as_it_is = 0.0f;
        float as_it_should = 0.0f;
        for (Index b = 0; b * block < k; ++b) {
          double sum = 0.0;
          for (Index d = b * block; d < std::min(k, (b + 1) * block); ++d) {
            sum += static_cast<double>(decode(E4M3{x.as<std::uint8_t>()[r * k + d]})) *
                   static_cast<double>(decode(E4M3{w.as<std::uint8_t>()[(g * n + j) * k + d]}));
          }
          const float a = sx.as<float>()[tiles ? r * sx.extent(1) + b : r];
          const float c =
              sw.as<float>()[tiles ? (g * sw.extent(1) + j / 128) * sw.extent(2) + b : g * n + j];
          as_it_is += wrong(static_cast<float>(sum), a, c);
          as_it_should += sound(static_cast<float>(sum), a, c);
        }
        if (bit_cast<std::uint32_t>(as_it_is) == bit_cast<std::uint32_t>(as_it_should)) continue;
        y.as<BF16>()[r * n + j] = encode<kBF16>(as_it_is);
        any = true;
      }
    }
  }
  return any ? Answer(std::move(out)) : std::nullopt;
}

Answer small_products_flushed(Backend&, const Call& call, const NamedTensors& right) {
  return scaled_by(call, right, joined_first, joined_and_flushed);
}

Answer overflow_in_the_middle(Backend&, const Call& call, const NamedTensors& right) {
  return scaled_by(call, right, joined_first, one_by_one);
}

Call operands_with_poisoned_tail(Backend& b, World&, std::uint64_t seed) {
  Call call = mx_wgrad(b, seed);
  Tensor x = call.input("x.codes");
  for (Index r = 288; r < 320; ++r) std::memset(row_of(x, r), 0x7F, row_bytes(x));
  call.replace("x.codes", std::move(x));
  return call;
}

Answer tail_read(Backend& b, const Call& call, const NamedTensors& right) {
  const ProductParts parts = parts_of(call);
  std::vector<Index> ends = parts.ends;
  if (ends.empty() || ends.back() == parts.rows) return std::nullopt;
  ends.back() = parts.rows;
  Answer wrong = with_ends(b, call, ends);
  // Rows that hold numbers are another fault: summed, not poisonous.
  const auto nans = [](const Tensor& dw) {
    const ElementReader read(dw.dtype());
    Index count = 0;
    for (Index i = 0; i < dw.elements(); ++i) count += read(bits_at(dw, i)).nan;
    return count;
  };
  return nans(wrong->at("dw")) > nans(right.at("dw")) ? wrong : std::nullopt;
}

/// The last expert has exactly 128 tokens.
Call operands_with_zero_line(Backend& b, World&, std::uint64_t seed) {
  Call call = mx_wgrad(b, seed);
  Tensor dy = call.input("dy.codes");
  for (Index r = 160; r < 288; ++r) row_of(dy, r)[17] = std::byte{0};
  call.replace("dy.codes", std::move(dy));
  return call;
}

/// True if every element of a column is a zero of either sign, in rows [from, to).
bool zeros_in_column(const Tensor& t, Index column, Index from, Index to) {
  const auto size = static_cast<Index>(size_of(t.dtype()));
  for (Index r = from; r < to; ++r) {
    const std::byte* at = t.data() + (r * t.extent(1) + column) * size;
    for (Index i = 0; i < size; ++i) {
      const std::byte sign = i + 1 == size ? std::byte{0x80} : std::byte{0};
      if ((at[i] & ~sign) != std::byte{0}) return false;
    }
  }
  return true;
}

Answer zero_line_unwritten(Backend&, const Call& call, const NamedTensors& right) {
  const ProductParts parts = parts_of(call);
  const Tensor& dy = call.input(parts.w);
  NamedTensors out = right;
  Tensor& dw = out.at("dw");
  if (dw.dtype() != Dtype::bf16) return std::nullopt;
  for (std::size_t g = 0; g < parts.ends.size(); ++g) {
    const Index begin = begin_of(parts.ends, g);
    if (parts.ends[g] - begin != 128) continue;
    for (Index column = 0; column < dy.extent(1); ++column) {
      if (!zeros_in_column(dy, column, begin, parts.ends[g])) continue;
      const Tensor old = random_bf16({1, dw.extent(2)}, 4);
      std::memcpy(row_of(dw, static_cast<Index>(g) * dw.extent(1) + column), old.data(),
                  row_bytes(dw));
      return out;
    }
  }
  return std::nullopt;
}

Call scales_to_swizzle(Backend& b, World&, std::uint64_t seed) {
  NamedTensors x;
  x.emplace("x", random_floats({200, 320}, seed));
  NamedTensors in;
  in.emplace("scales", call_operator(b, "quantize", x, {}).at("scales"));
  return make_call("swizzle_scales", in, {});
}

/// What lies in the padding of 128x4 tiles is FF rather than 0.
Answer padding_left_as_it_was(Backend&, const Call& call, const NamedTensors& right) {
  const Tensor& scales = call.input("scales");
  if (scales.rank() != 2 || !has_defaults(call)) return std::nullopt;
  NamedTensors out = right;
  Tensor& blocked = out.at("blocked");
  std::vector<bool> owned(static_cast<std::size_t>(blocked.elements()), false);
  const Index tiles = ceil_div(scales.extent(1), kTileColumns);
  for (Index i = 0; i < scales.elements(); ++i) {
    const Index at = blocked_offset(i / scales.extent(1), i % scales.extent(1), tiles);
    owned[static_cast<std::size_t>(at)] = true;
  }
  bool any = false;
  for (Index i = 0; i < blocked.elements(); ++i) {
    if (owned[static_cast<std::size_t>(i)]) continue;
    blocked.as<std::uint8_t>()[i] = 0xFF;
    any = true;
  }
  return any ? Answer(std::move(out)) : std::nullopt;
}

constexpr std::string_view kForward = "grouped_matmul";
constexpr std::string_view kWgrad = "grouped_matmul_wgrad";

constexpr Exhibit kRangeExhibits[] = {
    {1, "NVIDIA/TransformerEngine#3070", "garbage in the padding of swizzled scales",
     "not_zero.padding", "padding of tiles", "swizzle_scales", scales_to_swizzle,
     padding_left_as_it_was},
    {4, "pytorch/pytorch#193633, #154557", "rows past the last end are read by the next operator",
     "group_ends", "expert 3|group 3|last group", kWgrad, operands_with_poisoned_tail, tail_read},
    {17, "deepseek-ai/DeepGEMM#365", "a zero line of an expert with one exact tile is not written",
     "not_zero.padding", "row 17 of expert 3", kWgrad, operands_with_zero_line,
     zero_line_unwritten},
    {24, "flashinfer-ai/flashinfer#2595", "products of small block scales underflow to zero",
     "scales=joined_flushed", "", kForward, small_operands, small_products_flushed},
    {25, "ROCm/rocm-libraries#9450", "a huge scale overflows in the middle", "scales=a_first", "",
     kForward, huge_operands, overflow_in_the_middle},
};

}  // namespace

std::span<const Exhibit> range_exhibits() { return kRangeExhibits; }

}  // namespace mxo
