// Faults of products: groups, rows, depth, sums.
#include <cstring>

#include "golden/museum/operands.h"

namespace mxo {
namespace {

constexpr std::int32_t kNan = 0x7FC0;

void fill_bf16(std::byte* to, std::size_t bytes, std::int32_t word) {
  for (std::size_t i = 0; i < bytes; i += 2) std::memcpy(to + i, &word, 2);
}

void copy_rows(Tensor& t, const Tensor& from, Index to_row, Index from_row, Index n) {
  Tensor source = from;
  std::memcpy(row_of(t, to_row), row_of(source, from_row),
              static_cast<std::size_t>(n) * row_bytes(t));
}

Planted last_gradient_reads_tail(Backend& b, std::uint64_t seed) {
  const Call call = mx_wgrad(b, seed);
  Call wrong = call;
  wrong.replace("group_ends", ends_of({96, 96, 160, 320}));
  return planted(b, call, wrong);
}

Planted empty_expert_unwritten(Backend& b, std::uint64_t seed) {
  return spoiled(b, mx_wgrad(b, seed), [](NamedTensors& out) {
    Tensor& dw = out.at("dw");
    const std::size_t expert = dw.bytes() / static_cast<std::size_t>(dw.extent(0));
    fill_bf16(dw.data() + expert, expert, kNan);
  });
}

Planted padding_rows_stale(Backend& b, std::uint64_t seed) {
  return spoiled(b, mx_product(b, seed), [](NamedTensors& out) {
    Tensor& y = out.at("y");
    fill_bf16(row_of(y, 66), 4 * row_bytes(y), kNan);
  });
}

Planted other_stride(Backend& b, std::uint64_t seed) {
  return spoiled(b, mx_product(b, seed), [](NamedTensors& out) {
    Tensor& y = out.at("y");
    Tensor wrong(y.dtype(), y.shape());
    const std::size_t stride = row_bytes(y) + 32;
    for (Index r = 0; (static_cast<std::size_t>(r) + 1) * stride <= y.bytes(); ++r) {
      std::memcpy(wrong.data() + static_cast<std::size_t>(r) * stride, row_of(y, r), row_bytes(y));
    }
    y = std::move(wrong);
  });
}

Planted result_overwritten(Backend& b, std::uint64_t seed) {
  Planted p = spoiled(b, bf16_product(seed), [](NamedTensors&) {});
  p.actual = run_call(b, bf16_product(seed + 100));
  return p;
}

Planted other_expert(Backend& b, std::uint64_t seed) {
  const Call call = mx_product(b, seed);
  Call wrong = call;
  for (const char* name : {"w.codes", "w.scales"}) {
    Tensor w = call.input(name);
    const std::size_t expert = w.bytes() / static_cast<std::size_t>(w.extent(0));
    std::memcpy(w.data() + expert, call.input(name).data(), expert);
    wrong.replace(name, std::move(w));
  }
  return planted(b, call, wrong);
}

Planted one_end_early(Backend& b, std::uint64_t seed) {
  const Call call = mx_product(b, seed);
  Call wrong = call;
  wrong.replace("group_ends", ends_of({69, 121, 121, 224}));
  return planted(b, call, wrong);
}

Planted one_end_late(Backend& b, std::uint64_t seed) {
  const Call call = bf16_product(seed);
  Call wrong = call;
  wrong.replace("group_ends", ends_of({70, 122, 122, 224}));
  return planted(b, call, wrong);
}

Planted rows_of_group_before(Backend& b, std::uint64_t seed) {
  return spoiled(b, mx_product(b, seed),
                 [](NamedTensors& out) { copy_rows(out.at("y"), Tensor(out.at("y")), 70, 66, 4); });
}

Planted fast_for_promoted(Backend& b, std::uint64_t seed) {
  Call call = rowwise_product(b, seed);
  call.set.set("sum", "h200_wgmma_promote4");
  call.set.set("out", "f32");
  Call wrong = call;
  wrong.set.set("sum", "h200_wgmma_fast");
  return planted(b, call, wrong);
}

Planted depth_tail(Backend& b, const Call& call, Index times) {
  Call wrong = call;
  const std::string name = call.has("x.codes") ? "x.codes" : "x";
  const Tensor& x = call.input(name);
  const Index k = x.extent(1);
  if (times == 0) {
    Tensor cut = x;
    for (Index r = 0; r < x.extent(0); ++r) {
      const std::size_t tail = 32 * size_of(x.dtype());
      std::memset(row_of(cut, r) + row_bytes(cut) - tail, 0, tail);
    }
    wrong.replace(name, std::move(cut));
    return planted(b, call, wrong);
  }
  for (const auto& [operand, run] :
       {std::pair{std::string("x"), Index{32}}, std::pair{std::string("w"), Index{32}}}) {
    const Tensor& t = call.input(operand);
    std::vector<Index> shape = t.shape();
    shape.back() += run;
    Tensor wide(t.dtype(), shape);
    const std::size_t row = row_bytes(t);
    const std::size_t tail = static_cast<std::size_t>(run) * size_of(t.dtype());
    for (Index r = 0; r < t.elements() / k; ++r) {
      std::byte* to = wide.data() + static_cast<std::size_t>(r) * (row + tail);
      const std::byte* from = t.data() + static_cast<std::size_t>(r) * row;
      std::memcpy(to, from, row);
      std::memcpy(to + row, from + row - tail, tail);
    }
    wrong.replace(operand, std::move(wide));
  }
  return planted(b, call, wrong);
}

Planted depth_tail_lost(Backend& b, std::uint64_t seed) {
  return depth_tail(b, mx_product(b, seed), 0);
}
Planted depth_tail_twice(Backend& b, std::uint64_t seed) {
  return depth_tail(b, bf16_product(seed), 2);
}

Planted old_weights(Backend& b, std::uint64_t seed) {
  const Call call = mx_product(b, seed);
  Call wrong = call;
  const Call old = mx_product(b, seed + 50);
  wrong.replace("w.codes", old.input("w.codes"));
  wrong.replace("w.scales", old.input("w.scales"));
  return planted(b, call, wrong);
}

Planted tail_of_nobody(Backend& b, std::uint64_t seed) {
  ProductSize size;
  size.rows = 256;
  return spoiled(b, mx_product(b, seed, size), [](NamedTensors& out) {
    Tensor& y = out.at("y");
    fill_bf16(row_of(y, 224), 32 * row_bytes(y), kNan);
  });
}

Planted depth_tail_nan(Backend& b, std::uint64_t seed) {
  return spoiled(b, mx_product(b, seed), [](NamedTensors& out) {
    Tensor& y = out.at("y");
    fill_bf16(row_of(y, 121), 103 * row_bytes(y), kNan);
  });
}

Planted tile_of_old_bytes(Backend& b, std::uint64_t seed) {
  const Tensor old = random_bf16({64, 64}, seed + 7);
  return spoiled(b, mx_product(b, seed), [&](NamedTensors& out) {
    Tensor source = old;
    for (Index r = 0; r < 64; ++r) {
      std::memcpy(row_of(out.at("y"), 64 + r) + 128, row_of(source, r), 128);
    }
  });
}

constexpr Exhibit kExhibits[] = {
    {2, "NVIDIA/TransformerEngine#3484, #3485", "rows beyond the last group are summed into its dw",
     "group_ends", "", last_gradient_reads_tail},
    {3, "meta-pytorch/MSLK#158", "dw of an empty expert is never written", "never_written",
     "expert 1", empty_expert_unwritten},
    {5, "AMD-AGI/Primus-Turbo#397", "NaN past the last end", "same",
     "rows 224 to 255 of y belong to no group", tail_of_nobody},
    {19, "triton-lang/triton#8974", "0 x NaN in the K tail of the last group", "never_written.nan",
     "group 3", depth_tail_nan},
    {51, "one side only", "a tile of old bytes", "unknown", "", tile_of_old_bytes},
    {6, "flashinfer-ai/flashinfer#3650", "stale rows of group padding become NaN",
     "never_written.nan", "rows 66 to 69 of group 0", padding_rows_stale},
    {7, "flashinfer-ai/flashinfer#3103", "output strides are ignored", "rows.stride", "",
     other_stride},
    {8, "pytorch/FBGEMM#4314", "a later call overwrites the result", "unknown", "",
     result_overwritten},
    {32, "modelscope/mcore-bridge#125", "the weights of the last step", "unknown", "", old_weights},
    {14, "NVIDIA/TransformerEngine#1128", "one expert is multiplied by another's weights",
     "w=other_expert", "expert 0", other_expert},
    {20, "triton-lang/triton#8056", "fast accumulation although promotion was asked",
     "sum=", "h200_wgmma_fast", fast_for_promoted},
    {21, "pytorch/FBGEMM#4037, #4537", "the K tail of a tile is lost", "k.missing",
     "k = 480 to 511", depth_tail_lost},
    {21, "pytorch/FBGEMM#3883", "the K tail of a tile is summed twice", "k.twice", "k = 480 to 511",
     depth_tail_twice},
    {35, "pytorch/ao#3998", "one group ends a row early", "group_ends", "group 0", one_end_early},
    {35, "pytorch/ao#3998", "one group ends a row late", "group_ends", "group 1", one_end_late},
    {36, "several", "four rows after a boundary hold rows of the group before", "rows.shifted",
     "rows 70 to 73 of group 1", rows_of_group_before},
};

}  // namespace

std::span<const Exhibit> product_exhibits() { return kExhibits; }

}  // namespace mxo
