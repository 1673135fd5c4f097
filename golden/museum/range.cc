// Faults at the ends of ranges: scales that under- or overflow on the way, tails and lines of zeros
// that are read or left.
#include <cstring>

#include "golden/museum/operands.h"

namespace mxo {
namespace {

/// All f32 scales of one factor multiplied by a power of two.
void enlarge(Call& call, const char* name, float factor) {
  Tensor t = call.input(name);
  for (Index i = 0; i < t.elements(); ++i) t.as<float>()[i] *= factor;
  call.replace(name, std::move(t));
}

/// y of a product of codes, block by block of `block`, where `scale` makes what the block counts.
void fill(const Call& call, Tensor& y, Index block,
          const std::function<float(float sum, float sx, float sw)>& scaled) {
  const Tensor& x = call.input("x.codes");
  const Tensor& w = call.input("w.codes");
  const Tensor& sx = call.input("x.scales");
  const Tensor& sw = call.input("w.scales");
  const Index k = x.extent(1);
  const Index n = w.extent(1);
  const Tensor& ends = call.input("group_ends");
  const bool tiles = sw.rank() == 3;
  Index g = 0;
  for (Index r = 0; r < x.extent(0); ++r) {
    while (r >= ends.as<std::int32_t>()[g]) ++g;
    for (Index j = 0; j < n; ++j) {
      float total = 0.0f;
      for (Index b = 0; b * block < k; ++b) {
        double sum = 0.0;
        for (Index d = b * block; d < std::min(k, (b + 1) * block); ++d) {
          sum += static_cast<double>(decode(E4M3{x.as<std::uint8_t>()[r * k + d]})) *
                 static_cast<double>(decode(E4M3{w.as<std::uint8_t>()[(g * n + j) * k + d]}));
        }
        const float a = sx.as<float>()[tiles ? r * sx.extent(1) + b : r];
        const float c =
            sw.as<float>()[tiles ? (g * sw.extent(1) + j / 128) * sw.extent(2) + b : g * n + j];
        total += scaled(static_cast<float>(sum), a, c);
      }
      y.as<BF16>()[r * n + j] = encode<kBF16>(total);
    }
  }
}

Planted small_scales(Backend& b, std::uint64_t seed) {
  Call call = blockwise_product(b, seed);
  enlarge(call, "x.scales", 0x1p-72f);
  enlarge(call, "w.scales", 0x1p-56f);
  return spoiled(b, call, [&](NamedTensors& out) {
    fill(call, out.at("y"), 128, [](float sum, float sx, float sw) {
      const float s = sx * sw;
      return s < 0x1p-126f ? 0.0f : sum * s;
    });
  });
}

Planted huge_scale(Backend& b, std::uint64_t seed) {
  Call call = rowwise_product(b, seed);
  enlarge(call, "x.scales", 0x1p117f);
  enlarge(call, "w.scales", 0x1p-110f);
  return spoiled(b, call, [&](NamedTensors& out) {
    fill(call, out.at("y"), 512, [](float sum, float sx, float sw) { return sum * sx * sw; });
  });
}

Planted poisoned_tail(Backend& b, std::uint64_t seed) {
  Call call = mx_wgrad(b, seed);
  Tensor x = call.input("x.codes");
  for (Index r = 288; r < 320; ++r) std::memset(row_of(x, r), 0x7F, row_bytes(x));
  call.replace("x.codes", std::move(x));
  Call wrong = call;
  wrong.replace("group_ends", ends_of({96, 96, 160, 320}));
  return planted(b, call, wrong);
}

Planted zero_line(Backend& b, std::uint64_t seed) {
  Call call = mx_wgrad(b, seed);  // the last expert has exactly 128 tokens
  Tensor dy = call.input("dy.codes");
  for (Index r = 160; r < 288; ++r) row_of(dy, r)[17] = std::byte{0};
  call.replace("dy.codes", std::move(dy));
  const Tensor old = random_bf16({1, 160}, seed + 3);
  return spoiled(b, call, [&](NamedTensors& out) {
    Tensor& dw = out.at("dw");
    std::memcpy(row_of(dw, 3 * 96 + 17), old.data(), row_bytes(dw));
  });
}

Planted swizzled_padding(Backend& b, std::uint64_t seed) {
  NamedTensors x;
  x.emplace("x", random_floats({200, 320}, seed));
  NamedTensors in;
  in.emplace("scales", call_operator(b, "quantize", x, {}).at("scales"));
  return spoiled(b, make_call("swizzle_scales", in, {}), [](NamedTensors& out) {
    Tensor& t = out.begin()->second;
    for (Index i = 0; i < t.elements(); ++i) {
      auto& s = t.as<std::uint8_t>()[i];
      if (s == 0) s = 0xFF;
    }
  });
}

constexpr Exhibit kExhibits[] = {
    {1, "NVIDIA/TransformerEngine#3070", "garbage in the padding of swizzled scales",
     "never_written.padding", "padding of tiles", swizzled_padding},
    {4, "pytorch/pytorch#193633, #154557", "rows past the last end are read by the next operator",
     "group_ends", "expert 3|group 3|last group", poisoned_tail},
    {17, "deepseek-ai/DeepGEMM#365", "a zero line of an expert with one exact tile is not written",
     "never_written.padding", "row 17 of expert 3", zero_line},
    {24, "flashinfer-ai/flashinfer#2595", "products of small block scales underflow to zero",
     "scales=joined_flushed", "", small_scales},
    {25, "ROCm/rocm-libraries#9450", "a huge scale overflows in the middle", "scales=a_first", "",
     huge_scale},
};

}  // namespace

std::span<const Exhibit> range_exhibits() { return kExhibits; }

}  // namespace mxo
