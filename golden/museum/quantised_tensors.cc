// Faults of quantised tensors: bytes, layouts, bits, whatever the rule was.
#include <algorithm>
#include <cstring>

#include "formats/scale_layout.h"
#include "golden/museum/faults.h"
#include "golden/museum/operands.h"

namespace mxo {
namespace {

/// `right` with one output edited; nothing where `edit` says that it has no place for the fault.
Answer spoil(const NamedTensors& right, const std::string& name,
             const std::function<bool(Tensor&)>& edit) {
  NamedTensors out = right;
  if (out.at(name).elements() == 0 || !edit(out.at(name))) return std::nullopt;
  return out;
}

Answer column_major(Backend&, const Call&, const NamedTensors& right) {
  return spoil(right, "scales", [](Tensor& t) {
    if (t.rank() != 2 || size_of(t.dtype()) != 1) return false;
    const Tensor from = t;
    const Index rows = t.extent(0);
    for (Index i = 0; i < t.elements(); ++i) {
      t.as<std::uint8_t>()[i] = from.as<std::uint8_t>()[i % rows * t.extent(1) + i / rows];
    }
    return rows > 1 && t.extent(1) > 1;
  });
}
Answer nibbles(Backend&, const Call&, const NamedTensors& right) {
  return spoil(right, "codes", [](Tensor& t) {
    for (Index i = 0; i < t.elements(); ++i) {
      auto& c = t.as<std::uint8_t>()[i];
      c = static_cast<std::uint8_t>(c << 4 | c >> 4);
    }
    return true;
  });
}
/// Runs of `length` codes the other way round.
Answer reversed(const NamedTensors& right, Index length) {
  return spoil(right, "codes", [length](Tensor& t) {
    for (Index i = 0; i + length <= t.elements(); i += length) {
      std::reverse(t.as<std::uint8_t>() + i, t.as<std::uint8_t>() + i + length);
    }
    return t.shape().back() % length == 0;
  });
}
Answer bytes(Backend&, const Call&, const NamedTensors& right) { return reversed(right, 2); }
Answer lanes(Backend&, const Call&, const NamedTensors& right) { return reversed(right, 32); }

Answer last_block_zero(Backend&, const Call&, const NamedTensors& right) {
  return spoil(right, "codes", [](Tensor& t) {
    if (t.shape().back() < 64) return false;
    for (Index r = 0; r < t.elements() / t.shape().back(); ++r) {
      std::memset(row_of(t, r) + row_bytes(t) - 32, 0, 32);
    }
    return true;
  });
}
Answer rows_shifted(Backend&, const Call&, const NamedTensors& right) {
  return spoil(right, "codes", [](Tensor& t) {
    std::memmove(t.data() + row_bytes(t), t.data(), t.bytes() - row_bytes(t));
    return t.elements() > t.shape().back();
  });
}
/// Somewhere in the first third.
Answer one_bit(Backend&, const Call&, const NamedTensors& right) {
  return spoil(right, "codes", [](Tensor& t) {
    t.as<std::uint8_t>()[t.elements() * 12345 / 40960] ^= 8;
    return true;
  });
}
Answer scales_high(Backend&, const Call&, const NamedTensors& right) {
  return spoil(right, "scales", [](Tensor& t) {
    if (size_of(t.dtype()) != 1) return false;
    for (Index i = 0; i < t.elements(); ++i) {
      if (t.as<std::uint8_t>()[i] < 254) ++t.as<std::uint8_t>()[i];
    }
    return true;
  });
}

Call operands_with_zero_blocks(Backend& b, World& world, std::uint64_t seed) {
  Call call = rows_to_quantize(b, world, seed);
  Tensor x = call.input("x");
  for (const Index block : {3, 70, 71, 900}) std::memset(x.as<float>() + block * 32, 0, 128);
  call.replace("x", std::move(x));
  return call;
}
Answer zero_block_nan(Backend&, const Call& call, const NamedTensors& right) {
  const Tensor& x = call.input("x");
  if (!has_defaults(call) || x.dtype() == Dtype::f16) return std::nullopt;
  return spoil(right, "codes", [&](Tensor& codes) {
    bool any = false;
    for (Index begin = 0; begin + 32 <= x.elements(); begin += 32) {
      bool zero = true;
      for (Index i = begin; i < begin + 32; ++i) zero = zero && value_of(x, i) == 0.0f;
      if (zero) std::memset(codes.as<std::uint8_t>() + begin, 0x7F, 32);
      any = any || zero;
    }
    return any;
  });
}

Call blocked_operands(Backend& b, World& world, std::uint64_t seed) {
  Call call = rows_to_quantize(b, world, seed);
  call.set.set("scale_layout", "blocked");
  return call;
}
/// The scales of the same call in rows; nothing where they are in rows anyway.
std::optional<Tensor> scales_in_rows(Backend& b, const Call& call) {
  if (call.set.text("scale_layout", "row_major") != "blocked" || call.input("x").rank() != 2 ||
      call.has("group_ends") || call.set.text("block", "1x32") != "1x32") {
    return std::nullopt;
  }
  Call in_rows = call;
  in_rows.set.set("scale_layout", "row_major");
  return run_call(b, in_rows).at("scales");
}
Answer blocked_as_matrix(Backend& b, const Call& call, const NamedTensors& right) {
  const auto linear = scales_in_rows(b, call);
  if (!linear) return std::nullopt;
  return spoil(right, "scales", [&](Tensor& scales) {
    std::memset(scales.data(), 0, scales.bytes());
    std::memcpy(scales.data(), linear->data(), linear->bytes());
    return true;
  });
}
Answer padding_of_ones(Backend& b, const Call& call, const NamedTensors& right) {
  const auto linear = scales_in_rows(b, call);
  if (!linear) return std::nullopt;
  return spoil(right, "scales", [&](Tensor& scales) {
    std::vector<bool> owned(static_cast<std::size_t>(scales.elements()), false);
    const Index columns = linear->extent(1);
    for (Index i = 0; i < linear->elements(); ++i) {
      const Index at = blocked_offset(i / columns, i % columns, ceil_div(columns, kTileColumns));
      owned[static_cast<std::size_t>(at)] = true;
    }
    bool any = false;
    for (Index i = 0; i < scales.elements(); ++i) {
      if (owned[static_cast<std::size_t>(i)]) continue;
      scales.as<std::uint8_t>()[i] = 0x7F;
      any = true;
    }
    return any;
  });
}

constexpr std::string_view kOp = "quantize";

constexpr Exhibit kQuantisedExhibits[] = {
    {30, "sgl-project/sglang#39628", "scales one too high", "scale.", "", kOp, rows_to_quantize,
     scales_high},
    {50, "layouts", "scales are written column-major", "order.transposed", "", kOp,
     rows_to_quantize, column_major},
    {50, "layouts", "blocked scales written as a matrix", "order.untiled", "", kOp,
     blocked_operands, blocked_as_matrix},
    {50, "layouts", "padding of blocked scales is 7F", "not_zero.padding", "padding of tiles", kOp,
     blocked_operands, padding_of_ones},
    {23, "huggingface/kernels-community#681", "0/0 on zero blocks", "zero_blocks.nan", "codes", kOp,
     operands_with_zero_blocks, zero_block_nan},
    {51, "none: common slips", "nibbles exchanged", "value.nibbles", "", kOp, rows_to_quantize, nibbles},
    {51, "none: common slips", "bytes exchanged", "order.reversed_2", "", kOp, rows_to_quantize, bytes},
    {51, "none: common slips", "lanes reversed", "order.reversed_32", "", kOp, rows_to_quantize, lanes},
    {51, "none: common slips", "last block zero", "never_written.zero", "columns 224 to 255", kOp,
     rows_to_quantize, last_block_zero},
    {51, "none: common slips", "rows shifted by one", "rows.shifted", "1 before", kOp, rows_to_quantize,
     rows_shifted},
    {51, "none: common slips", "one bit", "bit.flipped", "bit 3", kOp, rows_to_quantize, one_bit},
};

}  // namespace

std::span<const Exhibit> quantised_tensor_exhibits() { return kQuantisedExhibits; }

}  // namespace mxo
