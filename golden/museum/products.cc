// Faults of products: groups, rows, depth, sums.
#include <algorithm>
#include <cstring>

#include "golden/museum/faults.h"
#include "golden/museum/operands.h"

namespace mxo {
namespace {

using Edit = std::function<bool(Tensor&, const Tensor&)>;

Call bf16_operands(Backend&, World&, std::uint64_t seed) { return bf16_product(seed); }
Call wgrad_operands(Backend& b, World&, std::uint64_t seed) { return mx_wgrad(b, seed); }
Call operands_with_tail(Backend& b, World&, std::uint64_t seed) {
  ProductSize size;
  size.rows = 256;
  return mx_product(b, seed, size);
}

/// `right` with `edit` done to one output.
Answer spoil(const NamedTensors& right, const std::string& name, const Edit& edit) {
  NamedTensors out = right;
  if (!edit(out.at(name), right.at(name))) return std::nullopt;
  return out;
}

void copy_rows(Tensor& t, const Tensor& from, Index to_row, Index from_row, Index n) {
  Tensor source = from;
  std::memcpy(row_of(t, to_row), row_of(source, from_row),
              static_cast<std::size_t>(n) * row_bytes(t));
}

Answer last_gradient_reads_tail(Backend& b, const Call& call, const NamedTensors&) {
  const ProductParts parts = parts_of(call);
  std::vector<Index> ends = parts.ends;
  if (ends.empty() || ends.back() == parts.rows) return std::nullopt;
  ends.back() = parts.rows;
  return with_ends(b, call, ends);
}

Answer empty_expert_unwritten(Backend&, const Call& call, const NamedTensors& right) {
  const std::vector<Index> ends = parts_of(call).ends;
  return spoil(right, "dw", [&](Tensor& dw, const Tensor&) {
    for (std::size_t g = 0; g < ends.size(); ++g) {
      if (ends[g] != begin_of(ends, g)) continue;
      fill_nan(dw, static_cast<Index>(g) * dw.extent(1), dw.extent(1));
      return true;
    }
    return false;
  });
}

/// The last four rows of a group that ends inside of a tile.
Answer padding_rows_stale(Backend&, const Call& call, const NamedTensors& right) {
  const std::vector<Index> ends = parts_of(call).ends;
  return spoil(right, "y", [&](Tensor& y, const Tensor&) {
    for (std::size_t g = 0; g < ends.size(); ++g) {
      if (ends[g] % 32 == 0 || ends[g] - begin_of(ends, g) < 4) continue;
      fill_nan(y, ends[g] - 4, 4);
      return true;
    }
    return false;
  });
}

Answer other_stride(Backend&, const Call&, const NamedTensors& right) {
  return spoil(right, "y", [](Tensor& y, const Tensor& from) {
    Tensor source = from;
    std::memset(y.data(), 0, y.bytes());
    const std::size_t stride = row_bytes(y) + 32;
    for (Index r = 0; (static_cast<std::size_t>(r) + 1) * stride <= y.bytes(); ++r) {
      std::memcpy(y.data() + static_cast<std::size_t>(r) * stride, row_of(source, r), row_bytes(y));
    }
    return y.extent(0) > 1;
  });
}

/// The next call has the same shapes and other numbers, and writes to the same place.
Answer result_overwritten(Backend& b, const Call& call, const NamedTensors&) {
  Call next = call;
  std::uint64_t seed = 101;
  for (const char* name : {"x", "w"}) {
    if (!call.has(name) || call.input(name).dtype() != Dtype::bf16) return std::nullopt;
    next.replace(name, random_bf16(call.input(name).shape(), seed++));
  }
  return run_call(b, next);
}

/// The first group behind another one with rows takes the weights of the expert before.
Answer other_expert(Backend& b, const Call& call, const NamedTensors&) {
  const ProductParts parts = parts_of(call);
  std::size_t g = 1;
  while (g < parts.ends.size() && parts.ends[g] == parts.ends[g - 1]) ++g;
  if (g >= parts.ends.size()) return std::nullopt;
  Call wrong = call;
  for (const std::string& name :
       {std::string("w"), std::string("w.codes"), std::string("w.scales")}) {
    if (!call.has(name)) continue;
    Tensor w = call.input(name);
    const std::size_t expert = w.bytes() / static_cast<std::size_t>(w.extent(0));
    std::memcpy(w.data() + g * expert, call.input(name).data() + (g - 1) * expert, expert);
    wrong.replace(name, std::move(w));
  }
  return run_call(b, wrong);
}

/// A group other than the last, which has rows.
Answer one_end_early(Backend& b, const Call& call, const NamedTensors&) {
  std::vector<Index> ends = parts_of(call).ends;
  for (std::size_t g = 0; g + 1 < ends.size(); ++g) {
    if (ends[g] == begin_of(ends, g)) continue;
    --ends[g];
    return with_ends(b, call, ends);
  }
  return std::nullopt;
}

/// The last boundary inside, at which one group or more end.
Answer one_end_late(Backend& b, const Call& call, const NamedTensors&) {
  std::vector<Index> ends = parts_of(call).ends;
  Index boundary = -1;
  for (const Index end : ends) {
    if (end < ends.back()) boundary = end;
  }
  if (boundary <= 0) return std::nullopt;
  std::replace(ends.begin(), ends.end(), boundary, boundary + 1);
  return with_ends(b, call, ends);
}

Answer rows_of_group_before(Backend&, const Call& call, const NamedTensors& right) {
  const std::vector<Index> ends = parts_of(call).ends;
  return spoil(right, "y", [&](Tensor& y, const Tensor& from) {
    for (const Index end : ends) {
      if (end < 4 || end + 4 > ends.back()) continue;
      copy_rows(y, from, end, end - 4, 4);
      return true;
    }
    return false;
  });
}

Call promoted_operands(Backend& b, World&, std::uint64_t seed) {
  Call call = rowwise_product(b, seed);
  call.set.set("sum", "h200_wgmma_promote4");
  call.set.set("out", "f32");
  return call;
}

Answer fast_for_promoted(Backend& b, const Call& call, const NamedTensors&) {
  if (call.set.text("sum", "exact") != "h200_wgmma_promote4") return std::nullopt;
  Call wrong = call;
  wrong.set.set("sum", "h200_wgmma_fast");
  return run_call(b, wrong);
}

constexpr Index kTail = 32;

Answer depth_tail_lost(Backend& b, const Call& call, const NamedTensors&) {
  return with_operand(b, call, parts_of(call).x, [](Tensor& cut, const Tensor& x) {
    if (x.extent(1) < kTail) return false;
    const std::size_t tail = kTail * size_of(x.dtype());
    for (Index r = 0; r < x.extent(0); ++r) {
      std::memset(row_of(cut, r) + row_bytes(cut) - tail, 0, tail);
    }
    return true;
  });
}

Answer depth_tail_twice(Backend& b, const Call& call, const NamedTensors&) {
  if (parts_of(call).coded()) return std::nullopt;
  Call wrong = call;
  for (const char* operand : {"x", "w"}) {
    const Tensor& t = call.input(operand);
    const Index k = t.shape().back();
    if (k < kTail) return std::nullopt;
    std::vector<Index> shape = t.shape();
    shape.back() += kTail;
    Tensor wide(t.dtype(), shape);
    const std::size_t row = row_bytes(t);
    const std::size_t tail = kTail * size_of(t.dtype());
    for (Index r = 0; r < t.elements() / k; ++r) {
      std::byte* to = wide.data() + static_cast<std::size_t>(r) * (row + tail);
      const std::byte* from = t.data() + static_cast<std::size_t>(r) * row;
      std::memcpy(to, from, row);
      std::memcpy(to + row, from + row - tail, tail);
    }
    wrong.replace(operand, std::move(wide));
  }
  return run_call(b, wrong);
}

Answer old_weights(Backend& b, const Call& call, const NamedTensors&) {
  if (!call.has("w.codes") || call.set.text("format_w", "e4m3") != "e4m3") return std::nullopt;
  NamedTensors in;
  in.emplace("x", random_floats(call.input("w.codes").shape(), 52));
  NamedTensors old = call_operator(b, "quantize", in, {});
  if (old.at("scales").shape() != call.input("w.scales").shape()) return std::nullopt;
  Call wrong = call;
  wrong.replace("w.codes", std::move(old.at("codes")));
  wrong.replace("w.scales", std::move(old.at("scales")));
  return run_call(b, wrong);
}

Answer tail_of_nobody(Backend&, const Call& call, const NamedTensors& right) {
  const ProductParts parts = parts_of(call);
  return spoil(right, "y", [&](Tensor& y, const Tensor&) {
    if (parts.ends.empty() || parts.ends.back() == parts.rows) return false;
    fill_nan(y, parts.ends.back(), parts.rows - parts.ends.back());
    return true;
  });
}

/// K = 416 has 13 scales a row; the rows of no group have NaN scales.
Call operands_beside_nan(Backend& b, World&, std::uint64_t seed) {
  ProductSize size;
  size.rows = 256;
  size.k = 416;
  Call call = mx_product(b, seed, size);
  Tensor scales = call.input("x.scales");
  std::memset(row_of(scales, size.ends.back()), 0xFF,
              static_cast<std::size_t>(size.rows - size.ends.back()) * row_bytes(scales));
  call.replace("x.scales", std::move(scales));
  return call;
}

/// Tiles of K are 128 deep.  Codes beyond K are masked to 0, the scales there are read: those of
/// the rows behind.
Answer depth_tail_nan(Backend&, const Call& call, const NamedTensors& right) {
  if (!call.has("x.scales") || call.input("x.scales").rank() != 2 ||
      call.input("x.scales").dtype() == Dtype::f32) {
    return std::nullopt;
  }
  const Tensor& scales = call.input("x.scales");
  const Index columns = scales.extent(1);
  const std::vector<Index> ends = parts_of(call).ends;
  return spoil(right, "y", [&](Tensor& y, const Tensor&) {
    bool any = false;
    for (Index r = 0; !ends.empty() && r < ends.back(); ++r) {
      for (Index c = columns; c < round_up(columns, Index{4}); ++c) {
        const Index at = r * columns + c;
        if (at >= scales.elements() || scales.as<std::uint8_t>()[at] != 0xFF) continue;
        fill_nan(y, r, 1);
        any = true;
      }
    }
    return any;
  });
}

Answer tile_of_old_bytes(Backend&, const Call&, const NamedTensors& right) {
  return spoil(right, "y", [](Tensor& y, const Tensor&) {
    constexpr Index tile = 64;
    if (y.dtype() != Dtype::bf16 || y.extent(0) < 2 * tile || y.extent(1) < 2 * tile) return false;
    Tensor old = random_bf16({tile, tile}, 8);
    for (Index r = 0; r < tile; ++r) {
      std::memcpy(row_of(y, tile + r) + row_bytes(old), row_of(old, r), row_bytes(old));
    }
    return true;
  });
}

constexpr std::string_view kForward = "grouped_matmul";
constexpr std::string_view kWgrad = "grouped_matmul_wgrad";

constexpr Exhibit kProductExhibits[] = {
    {2, "NVIDIA/TransformerEngine#3484, #3485", "rows beyond the last group are summed into its dw",
     "group_ends", "", kWgrad, wgrad_operands, last_gradient_reads_tail},
    {3, "meta-pytorch/MSLK#158", "dw of an empty expert is never written", "not_zero", "expert 1",
     kWgrad, wgrad_operands, empty_expert_unwritten},
    {5, "AMD-AGI/Primus-Turbo#397", "NaN past the last end", "same",
     "rows 224 to 255 of y belong to no group", kForward, operands_with_tail, tail_of_nobody},
    {19, "triton-lang/triton#8974", "0 x NaN in the K tail of the last group", "never_written.nan",
     "group 3", kForward, operands_beside_nan, depth_tail_nan},
    {51, "none: common slips", "a tile of old bytes", "unknown", "", kForward, mx_operands,
     tile_of_old_bytes},
    {6, "flashinfer-ai/flashinfer#3650", "stale rows of group padding become NaN",
     "never_written.nan", "rows 66 to 69 of group 0", kForward, mx_operands, padding_rows_stale},
    {7, "flashinfer-ai/flashinfer#3103", "output strides are ignored", "rows.stride", "", kForward,
     mx_operands, other_stride},
    {8, "pytorch/FBGEMM#4314", "a later call overwrites the result", "unknown", "", kForward,
     bf16_operands, result_overwritten},
    {32, "modelscope/mcore-bridge#125", "the weights of the last step", "unknown", "", kForward,
     mx_operands, old_weights},
    {14, "NVIDIA/TransformerEngine#1128", "one expert is multiplied by another's weights",
     "w=other_expert", "expert 0", kForward, mx_operands, other_expert},
    {20, "triton-lang/triton#8056", "fast accumulation although promotion was asked",
     "sum=", "h200_wgmma_fast", kForward, promoted_operands, fast_for_promoted},
    {21, "pytorch/FBGEMM#4037, #4537", "the K tail of a tile is lost", "k.missing",
     "k = 480 to 511", kForward, mx_operands, depth_tail_lost},
    {21, "pytorch/FBGEMM#3883", "the K tail of a tile is summed twice", "k.twice", "k = 480 to 511",
     kForward, bf16_operands, depth_tail_twice},
    {35, "pytorch/ao#3998", "one group ends a row early", "group_ends", "group 0", kForward,
     mx_operands, one_end_early},
    {35, "pytorch/ao#3998", "one group ends a row late", "group_ends", "group 1", kForward,
     bf16_operands, one_end_late},
    {36, "several", "four rows after a boundary hold rows of the group before", "rows.shifted",
     "rows 70 to 73 of group 1", kForward, mx_operands, rows_of_group_before},
};

}  // namespace

std::span<const Exhibit> product_exhibits() { return kProductExhibits; }

}  // namespace mxo
