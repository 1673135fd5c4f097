// Faults of the scales of products.
#include <bit>
#include <cmath>
#include <cstring>

#include "golden/museum/operands.h"

namespace mxo {
namespace {

/// `call` with the bytes of one operand edited.
template <typename Fn>
Planted with_operand(Backend& b, const Call& call, const std::string& name, Fn edit) {
  Call wrong = call;
  Tensor t = call.input(name);
  edit(t, call.input(name));
  wrong.replace(name, std::move(t));
  return planted(b, call, wrong);
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

Planted twice_from_second_wave(Backend& b, std::uint64_t seed) {
  return with_operand(b, mx_product(b, seed), "x.scales", [](Tensor& t, const Tensor&) {
    for (Index i = 128 * t.extent(1); i < t.elements(); ++i) {
      auto& s = t.as<std::uint8_t>()[i];
      s = static_cast<std::uint8_t>(2 * s - 127);
    }
  });
}

Planted rolled(Backend& b, std::uint64_t seed, Index by) {
  return with_operand(b, mx_product(b, seed), "x.scales", [by](Tensor& t, const Tensor& from) {
    const Index n = t.elements();
    each(t, from, [&](Index i) { return (i - by * t.extent(1) + n) % n; });
  });
}
Planted rolled_32(Backend& b, std::uint64_t seed) { return rolled(b, seed, 32); }
Planted rolled_128(Backend& b, std::uint64_t seed) { return rolled(b, seed, 128); }

Planted first_slice(Backend& b, std::uint64_t seed) {
  return with_operand(b, mx_product(b, seed), "x.scales", [](Tensor& t, const Tensor& from) {
    each(t, from, [&](Index i) { return i / t.extent(1) * t.extent(1); });
  });
}

Planted first_slice_w(Backend& b, std::uint64_t seed) {
  return with_operand(b, blockwise_product(b, seed), "w.scales", [](Tensor& t, const Tensor& from) {
    each(t, from, [&](Index i) { return i / t.extent(2) * t.extent(2); });
  });
}

Planted expert_0(Backend& b, std::uint64_t seed) {
  return with_operand(b, mx_product(b, seed), "w.scales", [](Tensor& t, const Tensor& from) {
    each(t, from, [&](Index i) { return i % (t.extent(1) * t.extent(2)); });
  });
}

Planted one_expert(Backend& b, std::uint64_t seed) {
  return with_operand(b, mx_product(b, seed), "w.scales", [](Tensor& t, const Tensor& from) {
    const Index expert = t.extent(1) * t.extent(2);
    each(t, from, [&](Index i) { return i / expert == 1 ? i - expert : i; });
  });
}

Planted stale_row(Backend& b, std::uint64_t seed) {
  const Call call = mx_product(b, seed);
  Planted p = with_operand(b, call, "x.scales", [](Tensor& t, const Tensor& from) {
    each(t, from, [&](Index i) { return i / t.extent(1) == 37 ? i - t.extent(1) : i; });
  });
  // Only the first tile of N saw the stale scales.
  Tensor& y = p.actual.at("y");
  Tensor right = p.expected.at("y");
  const std::size_t tile = 128 * size_of(y.dtype());
  std::memcpy(row_of(y, 37) + tile, row_of(right, 37) + tile, row_bytes(y) - tile);
  return p;
}

Planted last_tile(Backend& b, std::uint64_t seed) {
  return with_operand(b, mx_product(b, seed), "x.scales", [](Tensor& t, const Tensor& from) {
    each(t, from, [&](Index i) { return i / t.extent(1) >= 192 ? i - 64 * t.extent(1) : i; });
  });
}

Planted powers(Backend& b, std::uint64_t seed, bool up) {
  Call call = blockwise_product(b, seed);
  Call wrong = call;
  for (const char* name : {"x.scales", "w.scales"}) {
    Tensor t = call.input(name);
    for (Index i = 0; i < t.elements(); ++i) {
      float& s = t.as<float>()[i];
      s = std::exp2(up ? std::ceil(std::log2(s)) : std::floor(std::log2(s)));
    }
    wrong.replace(name, std::move(t));
  }
  return planted(b, call, wrong);
}
Planted powers_up(Backend& b, std::uint64_t seed) { return powers(b, seed, true); }
Planted powers_down(Backend& b, std::uint64_t seed) { return powers(b, seed, false); }

Planted byte_0(Backend& b, std::uint64_t seed) {
  Call call = mx_product(b, seed);
  Tensor scales = call.input("x.scales");
  Tensor codes = call.input("x.codes");
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
  call.replace("x.scales", scales);
  call.replace("w.scales", std::move(w));
  Call wrong = call;
  for (Index i = 0; i < codes.elements(); ++i) {
    if (scales.as<std::uint8_t>()[i / 32] == 0) codes.as<std::uint8_t>()[i] = 0;
  }
  wrong.replace("x.codes", std::move(codes));
  return planted(b, call, wrong);
}

Planted transposed(Backend& b, std::uint64_t seed) {
  return with_operand(b, mx_product(b, seed), "x.scales", [](Tensor& t, const Tensor& from) {
    const Index rows = t.extent(0);
    const Index columns = t.extent(1);
    each(t, from, [&](Index i) { return i % columns * rows + i / columns; });
  });
}

Planted padded_stride(Backend& b, std::uint64_t seed) {
  ProductSize size;
  size.k = 416;  // 13 scales a row, 16 with padding
  return with_operand(b, mx_product(b, seed, size), "x.scales", [](Tensor& t, const Tensor& from) {
    const Index columns = t.extent(1);
    each(t, from, [&](Index i) { return (i / columns * 16 + i % columns) % t.elements(); });
  });
}

Planted fnuz(Backend& b, std::uint64_t seed) {
  Call call = mx_product(b, seed);
  for (const char* name : {"x.codes", "w.codes"}) {
    Tensor codes = call.input(name);
    codes.reinterpret_as(Dtype::u8);
    call.replace(name, std::move(codes));
  }
  Call wrong = call;
  wrong.set.set("format_x", "e4m3fnuz");
  return planted(b, call, wrong);
}

/// Scales packed as four of an int32 whose fraction bits were kept: they spill into the byte above.
Planted fraction_bits(Backend& b, std::uint64_t seed) {
  return with_operand(b, mx_product(b, seed), "x.scales", [](Tensor& t, const Tensor&) {
    for (Index i = 0; i < t.elements(); ++i) {
      if (i % 4 != 0) t.as<std::uint8_t>()[i] |= static_cast<std::uint8_t>(1u << (i % 3));
    }
  });
}

Planted left_out(Backend& b, std::uint64_t seed) {
  return with_operand(b, mx_product(b, seed), "x.scales",
                      [](Tensor& t, const Tensor&) { std::memset(t.data(), 127, t.bytes()); });
}

constexpr Exhibit kExhibits[] = {
    {7, "flashinfer-ai/flashinfer#3103", "one expert reads another's scales", "w.scales",
     "expert 0", one_expert},
    {9, "NVIDIA/cutlass#3596", "A's scales are applied twice from the second wave of M on",
     "x.scales=twice", "rows 128 to 223", twice_from_second_wave},
    {10, "NVIDIA/cutlass#3394", "scale rows of another tile, 32 rows away", "x.scales",
     "32 rows before", rolled_32},
    {10, "NVIDIA/cutlass#3394", "scale rows of another tile, 128 rows away", "x.scales",
     "128 rows before|96 rows after", rolled_128},
    {11, "mlc-ai/TIRx-kernels#5", "every K block uses the first scale slice of x", "x.scales",
     "every K block of x takes the scale of block 0", first_slice},
    {11, "mlc-ai/TIRx-kernels#5", "every K block uses the first scale slice of w", "w.scales",
     "every K block of w takes the scale of block 0", first_slice_w},
    {12, "flashinfer-ai/flashinfer#4396, #3944, #4409", "one row of one N tile has stale scales",
     "x.scales", "columns 0 to 127 of row 37", stale_row},
    {13, "NVIDIA/cutlass#2154", "the last partial tile of M keeps old scales", "x.scales",
     "rows 192 to 223", last_tile},
    {14, "NVIDIA/TransformerEngine#1128", "every expert has expert 0's weight scales", "w.scales",
     "expert 0", expert_0},
    {15, "huggingface/transformers#47030", "f32 scales rounded up to powers of two afterwards",
     "scales=up", "", powers_up},
    {15, "sgl-project/sglang#28418, #39193", "f32 scales cut to powers of two afterwards",
     "scales=down", "", powers_down},
    {18, "triton-lang/triton#11624, #11737", "scale byte 0 is read as 0", "x.scales=byte_0", "",
     byte_0},
    {26, "sgl-project/sglang#25733", "packing of UE8M0 keeps mantissa bits", "x.scales=other", "",
     fraction_bits},
    {27, "sgl-project/sglang#29038", "scales are group-major where rows are token-major",
     "x.scales", "wrong axis", transposed},
    {29, "ROCm/aiter#2900", "scales at a padded stride", "x.scales", "16 apart rather than 13",
     padded_stride},
    {30, "sgl-project/sglang#39628, pytorch/ao#4130", "codes are read as fnuz", "format_x=e4m3fnuz",
     "", fnuz},
    {51, "one side only", "x is not scaled", "x.scales=left_out", "", left_out},
};

}  // namespace

std::span<const Exhibit> scale_exhibits() { return kExhibits; }

}  // namespace mxo
