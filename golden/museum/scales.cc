// Faults of the scales of products.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "golden/museum/faults.h"
#include "golden/museum/operands.h"

namespace mxo {
namespace {

Call blockwise_product(Backend& b, World&, std::uint64_t seed) {
  return blockwise_product(b, seed);
}

void each(Tensor& to, const Tensor& from, const std::function<Index(Index)>& source) {
  const std::size_t size = size_of(to.dtype());
  for (Index i = 0; i < to.elements(); ++i) {
    const Index at = source(i);
    if (at < 0 || at >= from.elements()) continue;
    std::memcpy(to.data() + static_cast<std::size_t>(i) * size,
                from.data() + static_cast<std::size_t>(at) * size, size);
  }
}

bool is_e8m0(const Tensor& t) { return size_of(t.dtype()) == 1; }

/// The scales of x edited where they are a matrix [R, blocks].
Answer with_scales_of_x(Backend& b, const Call& call,
                        const std::function<bool(Tensor&, const Tensor&)>& edit) {
  return with_operand(b, call, "x.scales", [&](Tensor& t, const Tensor& from) {
    return from.rank() == 2 && from.elements() > 0 && edit(t, from);
  });
}

/// The scales of w edited where they are [E, .., blocks].
Answer with_scales_of_w(Backend& b, const Call& call,
                        const std::function<bool(Tensor&, const Tensor&)>& edit) {
  return with_operand(b, call, "w.scales", [&](Tensor& t, const Tensor& from) {
    return from.rank() == 3 && from.elements() > 0 && edit(t, from);
  });
}

Answer twice_from_second_wave(Backend& b, const Call& call, const NamedTensors&) {
  return with_scales_of_x(b, call, [](Tensor& t, const Tensor&) {
    if (!is_e8m0(t) || t.extent(0) <= 128) return false;
    for (Index i = 128 * t.extent(1); i < t.elements(); ++i) {
      auto& s = t.as<std::uint8_t>()[i];
      if (s != 0xFF) s = static_cast<std::uint8_t>(std::clamp(2 * s - 127, 0, 254));
    }
    return true;
  });
}

Answer rolled(Backend& b, const Call& call, Index by) {
  return with_scales_of_x(b, call, [by](Tensor& t, const Tensor& from) {
    const Index n = t.elements();
    each(t, from, [&](Index i) { return (i - by * t.extent(1) + n) % n; });
    return t.extent(0) > by;
  });
}
Answer rolled_32(Backend& b, const Call& call, const NamedTensors&) { return rolled(b, call, 32); }
Answer rolled_128(Backend& b, const Call& call, const NamedTensors&) {
  return rolled(b, call, 128);
}

Answer first_slice(Backend& b, const Call& call, const NamedTensors&) {
  return with_scales_of_x(b, call, [](Tensor& t, const Tensor& from) {
    each(t, from, [&](Index i) { return i / t.extent(1) * t.extent(1); });
    return t.extent(1) > 1;
  });
}

Answer first_slice_w(Backend& b, const Call& call, const NamedTensors&) {
  return with_scales_of_w(b, call, [](Tensor& t, const Tensor& from) {
    each(t, from, [&](Index i) { return i / t.extent(2) * t.extent(2); });
    return t.extent(2) > 1;
  });
}

Answer expert_0(Backend& b, const Call& call, const NamedTensors&) {
  return with_scales_of_w(b, call, [](Tensor& t, const Tensor& from) {
    each(t, from, [&](Index i) { return i % (t.extent(1) * t.extent(2)); });
    return t.extent(0) > 1;
  });
}

Answer one_expert(Backend& b, const Call& call, const NamedTensors&) {
  return with_scales_of_w(b, call, [](Tensor& t, const Tensor& from) {
    const Index expert = t.extent(1) * t.extent(2);
    each(t, from, [&](Index i) { return i / expert == 1 ? i - expert : i; });
    return t.extent(0) > 1;
  });
}

/// Only the first tile of N sees the stale scales of one row.
Answer stale_row(Backend& b, const Call& call, const NamedTensors& right) {
  Index row = 0;
  Answer wrong = with_scales_of_x(b, call, [&](Tensor& t, const Tensor& from) {
    row = std::min<Index>(37, t.extent(0) - 1);
    each(t, from, [&](Index i) { return i / t.extent(1) == row ? i - t.extent(1) : i; });
    return row > 0;
  });
  if (!wrong || right.at("y").extent(1) <= 128) return std::nullopt;
  Tensor& y = wrong->at("y");
  Tensor sound = right.at("y");
  const std::size_t tile = 128 * size_of(y.dtype());
  std::memcpy(row_of(y, row) + tile, row_of(sound, row) + tile, row_bytes(y) - tile);
  return wrong;
}

/// Tiles of M are 64 rows.
Answer last_tile(Backend& b, const Call& call, const NamedTensors&) {
  return with_scales_of_x(b, call, [](Tensor& t, const Tensor& from) {
    const Index whole = t.extent(0) / 64 * 64;
    each(t, from, [&](Index i) { return i / t.extent(1) >= whole ? i - 64 * t.extent(1) : i; });
    return whole > 0 && whole < t.extent(0);
  });
}

Answer powers(Backend& b, const Call& call, float (*round)(float)) {
  Call wrong = call;
  for (const char* name : {"x.scales", "w.scales"}) {
    if (!call.has(name) || call.input(name).dtype() != Dtype::f32) return std::nullopt;
    Tensor t = call.input(name);
    for (Index i = 0; i < t.elements(); ++i) {
      float& s = t.as<float>()[i];
      if (std::isnormal(s)) s = std::exp2(round(std::log2(s)));
    }
    wrong.replace(name, std::move(t));
  }
  return run_call(b, wrong);
}
Answer powers_up(Backend& b, const Call& call, const NamedTensors&) {
  return powers(b, call, [](float log) { return std::ceil(log); });
}
Answer powers_down(Backend& b, const Call& call, const NamedTensors&) {
  return powers(b, call, [](float log) { return std::floor(log); });
}

Call operands_with_byte_0(Backend& b, World&, std::uint64_t seed) {
  Call call = mx_product(b, seed);
  Tensor scales = call.input("x.scales");
  Tensor w = call.input("w.scales");
  // Scales of w are large enough for products of 2^-127 to be seen.
  for (Index i = 0; i < w.elements(); ++i) {
    auto& s = w.as<std::uint8_t>()[i];
    s = static_cast<std::uint8_t>(s + 60);
  }
  for (Index i = 0; i < scales.elements(); ++i) {
    auto& s = scales.as<std::uint8_t>()[i];
    s = i % 5 == 2 ? 0 : static_cast<std::uint8_t>(i % 3);
  }
  call.replace("x.scales", std::move(scales));
  call.replace("w.scales", std::move(w));
  return call;
}

Answer byte_0(Backend& b, const Call& call, const NamedTensors&) {
  if (!call.has("x.scales") || !is_e8m0(call.input("x.scales"))) return std::nullopt;
  const Tensor& scales = call.input("x.scales");
  return with_operand(b, call, "x.codes", [&](Tensor& codes, const Tensor&) {
    if (codes.elements() != scales.elements() * 32) return false;
    for (Index i = 0; i < codes.elements(); ++i) {
      if (scales.as<std::uint8_t>()[i / 32] == 0) codes.as<std::uint8_t>()[i] = 0;
    }
    return true;
  });
}

Answer transposed(Backend& b, const Call& call, const NamedTensors&) {
  return with_scales_of_x(b, call, [](Tensor& t, const Tensor& from) {
    const Index rows = t.extent(0);
    const Index columns = t.extent(1);
    each(t, from, [&](Index i) { return i % columns * rows + i / columns; });
    return rows > 1 && columns > 1;
  });
}

Call operands_to_pad(Backend& b, World&, std::uint64_t seed) {
  ProductSize size;
  size.k = 416;  // 13 scales a row, 16 with padding
  return mx_product(b, seed, size);
}

Answer padded_stride(Backend& b, const Call& call, const NamedTensors&) {
  return with_scales_of_x(b, call, [](Tensor& t, const Tensor& from) {
    const Index columns = t.extent(1);
    const Index stride = round_up(columns, Index{4});
    each(t, from, [&](Index i) { return (i / columns * stride + i % columns) % t.elements(); });
    return stride != columns;
  });
}

Call plain_bytes(Backend& b, World&, std::uint64_t seed) {
  Call call = mx_product(b, seed);
  for (const char* name : {"x.codes", "w.codes"}) {
    Tensor codes = call.input(name);
    codes.reinterpret_as(Dtype::u8);
    call.replace(name, std::move(codes));
  }
  return call;
}

Answer fnuz(Backend& b, const Call& call, const NamedTensors&) {
  if (!call.has("x.codes") || call.input("x.codes").dtype() != Dtype::u8 ||
      call.set.text("format_x", "e4m3") != "e4m3") {
    return std::nullopt;
  }
  Call wrong = call;
  wrong.set.set("format_x", "e4m3fnuz");
  return run_call(b, wrong);
}

/// Scales packed as four of an int32 whose fraction bits were kept: they spill into the byte above.
Answer fraction_bits(Backend& b, const Call& call, const NamedTensors&) {
  return with_scales_of_x(b, call, [](Tensor& t, const Tensor&) {
    if (!is_e8m0(t)) return false;
    for (Index i = 0; i < t.elements(); ++i) {
      if (i % 4 != 0) t.as<std::uint8_t>()[i] |= static_cast<std::uint8_t>(1u << (i % 3));
    }
    return true;
  });
}

Answer left_out(Backend& b, const Call& call, const NamedTensors&) {
  return with_scales_of_x(b, call, [](Tensor& t, const Tensor&) {
    if (is_e8m0(t)) std::memset(t.data(), 127, t.bytes());
    return is_e8m0(t);
  });
}

constexpr std::string_view kProductOp = "grouped_matmul";

constexpr Exhibit kScaleExhibits[] = {
    {7, "flashinfer-ai/flashinfer#3103", "one expert reads another's scales", "w.scales",
     "expert 0", kProductOp, mx_operands, one_expert},
    {9, "NVIDIA/cutlass#3596", "A's scales are applied twice from the second wave of M on",
     "x.scales=twice", "rows 128 to 223", kProductOp, mx_operands, twice_from_second_wave},
    {10, "NVIDIA/cutlass#3394", "scale rows of another tile, 32 rows away", "x.scales",
     "32 rows before", kProductOp, mx_operands, rolled_32},
    {10, "NVIDIA/cutlass#3394", "scale rows of another tile, 128 rows away", "x.scales",
     "128 rows before|96 rows after", kProductOp, mx_operands, rolled_128},
    {11, "mlc-ai/TIRx-kernels#5", "every K block uses the first scale slice of x", "x.scales",
     "every K block of x takes the scale of block 0", kProductOp, mx_operands, first_slice},
    {11, "mlc-ai/TIRx-kernels#5", "every K block uses the first scale slice of w", "w.scales",
     "every K block of w takes the scale of block 0", kProductOp, blockwise_product, first_slice_w},
    {12, "flashinfer-ai/flashinfer#4396, #3944, #4409", "one row of one N tile has stale scales",
     "x.scales", "columns 0 to 127 of row 37", kProductOp, mx_operands, stale_row},
    {13, "NVIDIA/cutlass#2154", "the last partial tile of M keeps old scales", "x.scales",
     "rows 192 to 223", kProductOp, mx_operands, last_tile},
    {14, "NVIDIA/TransformerEngine#1128", "every expert has expert 0's weight scales", "w.scales",
     "expert 0", kProductOp, mx_operands, expert_0},
    {15, "huggingface/transformers#47030", "f32 scales rounded up to powers of two afterwards",
     "scales=up", "", kProductOp, blockwise_product, powers_up},
    {15, "sgl-project/sglang#28418, #39193", "f32 scales cut to powers of two afterwards",
     "scales=down", "", kProductOp, blockwise_product, powers_down},
    {18, "triton-lang/triton#11624, #11737", "scale byte 0 is read as 0", "x.scales=byte_0", "",
     kProductOp, operands_with_byte_0, byte_0},
    {26, "sgl-project/sglang#25733", "packing of UE8M0 keeps mantissa bits", "x.scales=other", "",
     kProductOp, mx_operands, fraction_bits},
    {27, "sgl-project/sglang#29038", "scales are group-major where rows are token-major",
     "x.scales", "wrong axis", kProductOp, mx_operands, transposed},
    {29, "ROCm/aiter#2900", "scales at a padded stride", "x.scales", "16 apart rather than 13",
     kProductOp, operands_to_pad, padded_stride},
    {30, "sgl-project/sglang#39628, pytorch/ao#4130", "codes are read as fnuz", "format_x=e4m3fnuz",
     "", kProductOp, plain_bytes, fnuz},
    {51, "none: common slips", "x is not scaled", "x.scales=left_out", "", kProductOp, mx_operands,
     left_out},
};

}  // namespace

std::span<const Exhibit> scale_exhibits() { return kScaleExhibits; }

}  // namespace mxo
