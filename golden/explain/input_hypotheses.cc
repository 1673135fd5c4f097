// Operands read another way: layouts, sides, axes, groups, precision.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "formats/scale_layout.h"
#include "golden/explain/hypotheses.h"
#include "golden/explain/find/product/finders.h"

namespace mxo {
namespace {

void add(std::vector<Hypothesis>& list, std::string name, std::string phrase,
         std::function<bool(Call&)> alter, bool local) {
  list.push_back({std::move(name), std::move(phrase), Stage::input, std::move(alter), {}, local});
}

/// What a kernel sees of one matrix of scales [rows, columns] if it takes linear bytes for
/// 128x4 tiles (`as_tiles`), or tiles for linear bytes.
void misread_tiles(const std::uint8_t* from, std::uint8_t* to, Index rows, Index columns,
                   bool as_tiles) {
  const Index tiles = ceil_div(columns, kTileColumns);
  const Index bytes = rows * columns;
  for (Index r = 0; r < rows; ++r) {
    for (Index c = 0; c < columns; ++c) {
      const Index linear = r * columns + c;
      const Index tiled = blocked_offset(r, c, tiles);
      if (as_tiles) {
        to[linear] = tiled < bytes ? from[tiled] : 0;
      } else if (tiled < bytes) {
        to[tiled] = from[linear];
      }
    }
  }
}

bool misread_scales(Call& call, const std::string& name, bool as_tiles) {
  const Tensor& scales = call.input(name);
  if (scales.rank() < 2 || size_of(scales.dtype()) != 1) return false;
  const Index columns = scales.shape().back();
  const Index rows = scales.shape()[scales.shape().size() - 2];
  if (rows * columns == 0) return false;
  Tensor seen(scales.dtype(), scales.shape());
  for (Index at = 0; at < scales.elements(); at += rows * columns) {
    misread_tiles(scales.as<std::uint8_t>() + at, seen.as<std::uint8_t>() + at, rows, columns,
                  as_tiles);
  }
  call.replace(name, std::move(seen));
  return true;
}

/// The bytes of each side's scales read for the other's, as far as they reach.
bool exchange_scales(Call& call, const std::string& a, const std::string& b) {
  if (!call.has(a) || !call.has(b)) return false;
  const auto filled = [](const Tensor& like, const Tensor& from) {
    Tensor out(like.dtype(), like.shape());
    for (std::size_t at = 0; at < out.bytes() && from.bytes() > 0; at += from.bytes()) {
      std::memcpy(out.data() + at, from.data(), std::min(from.bytes(), out.bytes() - at));
    }
    return out;
  };
  Tensor of_a = filled(call.input(a), call.input(b));
  Tensor of_b = filled(call.input(b), call.input(a));
  call.replace(a, std::move(of_a));
  call.replace(b, std::move(of_b));
  return true;
}

bool is_weights(std::string_view name) { return name == "probs" || name.ends_with("weights"); }

/// The halves of every row of x exchanged, or, where `run` is not 0, taken from even and odd runs
/// of so many elements.
bool exchange_halves(Call& call, Index run) {
  const Tensor& given = call.input("x");
  const Index columns = given.rank() == 0 ? 0 : given.shape().back();
  if (columns < 2 || columns % 2 != 0) return false;
  if (run != 0 && (columns / 2 % run != 0 || columns / 2 == run)) return false;
  Tensor seen = given;
  const std::size_t size = size_of(given.dtype());
  for (Index i = 0; i < given.elements(); ++i) {
    const Index c = i % columns;
    const Index half = columns / 2;
    const Index k = c % half;
    const Index from =
        run == 0 ? (c + half) % columns : k / run * 2 * run + (c < half ? 0 : run) + k % run;
    std::memcpy(seen.data() + static_cast<std::size_t>(i) * size,
                given.data() + static_cast<std::size_t>(i - c + from) * size, size);
  }
  call.replace("x", std::move(seen));
  return true;
}

/// Every operand of router weights replaced by fn of it.
bool map_weights(Call& call, float (*fn)(float)) {
  std::vector<std::string> names;
  for (const auto& [name, tensor] : call.inputs) {
    if (is_weights(name) && tensor->dtype() == Dtype::f32) names.push_back(name);
  }
  for (const std::string& name : names) {
    Tensor weights = call.input(name);
    for (Index i = 0; i < weights.elements(); ++i) {
      weights.as<float>()[i] = fn(weights.as<float>()[i]);
    }
    call.replace(name, std::move(weights));
  }
  return !names.empty();
}

void add_weights(const Call& call, std::vector<Hypothesis>& list) {
  const bool any = std::any_of(call.inputs.begin(), call.inputs.end(),
                               [](const auto& input) { return is_weights(input.first); });
  if (!any) return;
  add(
      list, "weights=twice", "router weights are applied twice",
      [](Call& c) { return map_weights(c, [](float w) { return w * w; }); }, false);
  add(
      list, "weights=left_out", "router weights are left out",
      [](Call& c) { return map_weights(c, [](float) { return 1.0f; }); }, false);
  add(
      list, "weights=bf16", "router weights are rounded to bf16 first",
      [](Call& c) { return map_weights(c, [](float w) { return decode(encode<kBF16>(w)); }); },
      false);
}

bool move_end(Call& call, Index g, Index by) {
  Tensor ends = call.input("group_ends");
  auto* end = ends.as<std::int32_t>();
  const Index to = end[g] + by;
  const Index low = g == 0 ? 0 : end[g - 1];
  const Index high = g + 1 < ends.elements() ? end[g + 1] : to;
  if (to < low || to > high) return false;
  end[g] = static_cast<std::int32_t>(to);
  call.replace("group_ends", std::move(ends));
  return true;
}

/// False where an end between the first row and the last would leave them.
bool shift_ends(Call& call, Index by) {
  Tensor ends = call.input("group_ends");
  auto* end = ends.as<std::int32_t>();
  for (Index g = 0; g + 1 < ends.elements(); ++g) {  // the last end stays: all rows are owed
    const Index last = end[ends.elements() - 1];
    if (end[g] == (by < 0 ? 0 : last)) continue;
    if (end[g] + by < 0 || end[g] + by > last) return false;
    end[g] = static_cast<std::int32_t>(end[g] + by);
  }
  call.replace("group_ends", std::move(ends));
  return true;
}

/// All rows in the first group.
bool join_groups(Call& call) {
  Tensor ends = call.input("group_ends");
  auto* end = ends.as<std::int32_t>();
  std::fill(end, end + ends.elements(), end[ends.elements() - 1]);
  call.replace("group_ends", std::move(ends));
  return true;
}

/// Every way in which the ends of groups may be misread.
void add_ends(const Call& call, std::vector<Hypothesis>& list) {
  if (!call.has("group_ends")) return;
  const std::size_t first = list.size();
  const Tensor& ends = call.input("group_ends");
  if (call.op.starts_with("quantize") && ends.elements() > 1) {
    add(list, "group_ends=ignored", "blocks do not begin anew where a group does", join_groups,
        false);
  }
  for (const Index by : {-1, 1, -32, 32, -128, 128}) {
    const std::string rows =
        std::to_string(by < 0 ? -by : by) + (by * by == 1 ? " row " : " rows ");
    const std::string late = by < 0 ? "early" : "late";
    add(
        list, "group_ends" + std::string(by < 0 ? "" : "+") + std::to_string(by),
        "groups end " + rows + late, [by](Call& c) { return shift_ends(c, by); }, false);
    for (Index g = 0; g < std::min<Index>(ends.elements(), 64); ++g) {
      add(
          list, "group_ends=moved", "group " + std::to_string(g) + " ends " + rows + late,
          [g, by](Call& c) { return move_end(c, g, by); }, false);
    }
  }
  const std::optional<Product> product = product_of(call);
  if (product && product->wgrad && product->ends.back() < product->k) {
    const Index by = product->k - product->ends.back();
    add(
        list, "group_ends=buffer",
        "the last group runs to the end of the buffer: rows that belong to nobody are summed",
        [by](Call& c) { return move_end(c, c.input("group_ends").elements() - 1, by); }, false);
  }
  for (std::size_t i = first; i < list.size(); ++i) {
    list[i].target = Target::group_ends;
    list[i].subject = "group_ends";
  }
}

/// The scale of the first block of depth, or of the one before, in place of each block's own.
bool stale_blocks(Call& call, const std::string& name, bool first, bool down) {
  const Tensor& given = call.input(name);
  // Of w [E, N, K] scales [E, N] are one a line.
  if (given.rank() < (name == "w.scales" ? 3 : 2)) return false;
  const Index columns = given.shape().back();
  const Index rows = given.elements() / std::max<Index>(columns, 1);
  if ((down ? rows : columns) < 2) return false;
  Tensor seen = given;
  const std::size_t size = size_of(given.dtype());
  for (Index i = 0; i < given.elements(); ++i) {
    const Index c = i % columns;
    const Index from =
        down ? (first ? c : std::max(i - columns, c)) : (first ? i - c : std::max(i - 1, i - c));
    std::memcpy(seen.data() + static_cast<std::size_t>(i) * size,
                given.data() + static_cast<std::size_t>(from) * size, size);
  }
  call.replace(name, std::move(seen));
  return true;
}

/// Blocks whose scale is byte 0 become zero.
bool vanish_blocks(Call& call, const std::string& scales, const std::string& codes, bool down) {
  const Tensor& s = call.input(scales);
  Tensor c = call.input(codes);
  if (s.rank() < 2 || c.rank() != s.rank()) return false;
  const Index columns = c.shape().back();
  const Index scale_columns = s.shape().back();
  const Index rows = c.shape()[c.shape().size() - 2];
  bool any = false;
  for (Index i = 0; i < c.elements(); ++i) {
    const Index row = i / columns;
    const Index at = down ? row % rows / 32 * scale_columns + i % columns
                          : row * scale_columns + i % columns / 32;
    if (at >= s.elements() || s.as<std::uint8_t>()[at] != 0) continue;
    c.as<std::uint8_t>()[i] = 0;
    any = true;
  }
  if (any) call.replace(codes, std::move(c));
  return any;
}

}  // namespace

void add_input_hypotheses(const Call& call, std::vector<Hypothesis>& list) {
  const std::optional<Product> product = product_of(call);
  if (call.has("x") && !product) {
    if (call.input("x").rank() >= 2) {
      list.push_back(
          read_elsewhere("x=transposed", "x is read transposed", {read_transposed("x")}));
    }
  }
  if (call.op.starts_with("swiglu") && call.has("x")) {
    add(
        list, "x=halves", "gate and up are exchanged",
        [](Call& c) { return exchange_halves(c, 0); }, true);
    for (const Index run : {1, 2, 4, 8, 16, 32, 64, 128}) {
      const std::string every = run == 1 ? "" : " in runs of " + std::to_string(run);
      add(
          list, "x=interleaved", "gate and up are read interleaved" + every,
          [run](Call& c) { return exchange_halves(c, run); }, true);
    }
  }
  add_ends(call, list);
  add_weights(call, list);
  if (call.op == "dequantize") {
    list.push_back(read_elsewhere("scales=transposed", "scales are read along the wrong axis",
                                  {read_transposed("scales")}));
  }
  if (!product) return;
  for (const ProductSide* f : {&product->a, &product->b}) {
    const std::string scales = f->scales_name;
    if (f->scales != nullptr) {
      add(
          list, scales + "=linear_as_tiles",
          "linear scales of " + f->name + " are read as 128x4 tiles (not swizzled)",
          [scales](Call& c) { return misread_scales(c, scales, true); }, false);
      add(
          list, scales + "=tiles_as_linear",
          "the scales of " + f->name + " are swizzled once more than they are read back",
          [scales](Call& c) { return misread_scales(c, scales, false); }, false);
      list.push_back(read_elsewhere(scales + "=transposed",
                                    "the scales of " + f->name + " are read along the wrong axis",
                                    {read_transposed(scales)}));
      for (const bool all : {true, false}) {
        add(
            list, scales + (all ? "=first_block" : "=block_before"),
            all ? "every K block of " + f->name + " takes the scale of block 0"
                : "K blocks of " + f->name + " take the scale of the block before",
            [scales, all, wgrad = product->wgrad](Call& c) {
              return stale_blocks(c, scales, all, wgrad);
            },
            false);
      }
      add_scale_values(*f, list);
      if (size_of(f->scales->dtype()) == 1) {
        add(
            list, scales + "=byte_0", "scale byte 0 of " + f->name + " is read as 0",
            [scales, codes = f->codes_name, wgrad = product->wgrad](Call& c) {
              return vanish_blocks(c, scales, codes, wgrad);
            },
            true);
      }
    }
    list.push_back(read_elsewhere(f->codes_name + "=transposed", f->name + " is read transposed",
                                  {read_transposed(f->codes_name)}));
  }
  if (product->a.scales == nullptr || product->b.scales == nullptr) return;
  const std::string a = product->a.scales_name;
  const std::string b = product->b.scales_name;
  add(
      list, "scales=exchanged", "the scales of both sides are exchanged",
      [a, b](Call& c) { return exchange_scales(c, a, b); }, false);
  add(
      list, "scales=left_out", "all scales are left out",
      [a, b](Call& c) {
        const auto one = [](double) { return 1.0; };
        return map_scales(c, a, one) && map_scales(c, b, one);
      },
      true);
  add(
      list, "scales=twice", "all scales are applied twice",
      [a, b](Call& c) {
        const auto square = [](double s) { return s * s; };
        return map_scales(c, a, square) && map_scales(c, b, square);
      },
      true);
  add(
      list, "scales=first_block", "every K block takes the scales of block 0, on both sides",
      [a, b, wgrad = product->wgrad](Call& c) {
        return stale_blocks(c, a, true, wgrad) && stale_blocks(c, b, true, wgrad);
      },
      false);
  list.push_back(read_elsewhere("scales=transposed",
                                "the scales of both sides are read along the wrong axis",
                                {read_transposed(a), read_transposed(b)}));
  if (size_of(product->a.scales->dtype()) == 1) return;
  for (const bool up : {true, false}) {
    add(
        list, up ? "scales=up" : "scales=down",
        up ? "all scales are rounded up to powers of two" : "all scales are cut to powers of two",
        [a, b, up](Call& c) {
          const auto power = [up](double s) {
            return std::exp2(up ? std::ceil(std::log2(s)) : std::floor(std::log2(s)));
          };
          return map_scales(c, a, power) && map_scales(c, b, power);
        },
        true);
  }
}

}  // namespace mxo
