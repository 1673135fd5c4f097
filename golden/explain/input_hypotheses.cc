// Operands read another way: layouts, sides, axes, groups, precision.
#include <algorithm>
#include <cstring>

#include "formats/scale_layout.h"
#include "golden/explain/hypotheses.h"

namespace mxo {
namespace {

void add(std::vector<Hypothesis>& list, std::string name, std::string phrase,
         std::function<bool(Call&)> alter) {
  list.push_back({std::move(name), std::move(phrase), Stage::input, std::move(alter), {}});
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
  if (call.op != "grouped_matmul") return false;
  const Tensor& scales = call.input(name);
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

/// The last two axes of `name` filled from a buffer that holds them the other way round.
bool read_transposed(Call& call, const std::string& name) {
  if (!call.has(name) || call.input(name).rank() < 2) return false;
  const Tensor& tensor = call.input(name);
  const std::size_t size = size_of(tensor.dtype());
  const Index columns = tensor.shape().back();
  const Index rows = tensor.shape()[tensor.shape().size() - 2];
  if (rows < 2 || columns < 2) return false;
  Tensor seen(tensor.dtype(), tensor.shape());
  const Index matrix = rows * columns;
  for (Index at = 0; at < tensor.elements(); at += matrix) {
    for (Index r = 0; r < rows; ++r) {
      for (Index c = 0; c < columns; ++c) {
        std::memcpy(seen.data() + static_cast<std::size_t>(at + r * columns + c) * size,
                    tensor.data() + static_cast<std::size_t>(at + c * rows + r) * size, size);
      }
    }
  }
  call.replace(name, std::move(seen));
  return true;
}

/// The bytes of each side's scales read for the other's, as far as they reach.
bool exchange_scales(Call& call) {
  if (!call.has("x.scales") || !call.has("w.scales")) return false;
  const auto filled = [](const Tensor& like, const Tensor& from) {
    Tensor out(like.dtype(), like.shape());
    for (std::size_t at = 0; at < out.bytes() && from.bytes() > 0; at += from.bytes()) {
      std::memcpy(out.data() + at, from.data(), std::min(from.bytes(), out.bytes() - at));
    }
    return out;
  };
  Tensor x = filled(call.input("x.scales"), call.input("w.scales"));
  Tensor w = filled(call.input("w.scales"), call.input("x.scales"));
  call.replace("x.scales", std::move(x));
  call.replace("w.scales", std::move(w));
  return true;
}

bool shift_ends(Call& call, int by) {
  if (!call.has("group_ends")) return false;
  Tensor ends = call.input("group_ends");
  auto* end = ends.as<std::int32_t>();
  for (Index g = 0; g + 1 < ends.elements(); ++g) {  // the last end stays: all rows are owed
    const std::int32_t last = end[ends.elements() - 1];
    end[g] = std::clamp<std::int32_t>(end[g] + by, 0, last);
  }
  call.replace("group_ends", std::move(ends));
  return true;
}

/// Group g multiplied by the weights of expert g + by.
bool roll_experts(Call& call, Index by) {
  bool rolled = false;
  for (const char* name : {"w", "w.codes", "w.scales"}) {
    if (!call.has(name) || call.input(name).rank() < 2 || call.input(name).extent(0) < 2) continue;
    if (by < 0 && call.input(name).extent(0) == 2) continue;  // then the next one is the same
    const Tensor& w = call.input(name);
    const Index experts = w.extent(0);
    const std::size_t bytes = w.bytes() / static_cast<std::size_t>(experts);
    Tensor seen(w.dtype(), w.shape());
    for (Index e = 0; e < experts; ++e) {
      const auto from = static_cast<std::size_t>((e + by + experts) % experts);
      std::memcpy(seen.data() + static_cast<std::size_t>(e) * bytes, w.data() + from * bytes,
                  bytes);
    }
    call.replace(name, std::move(seen));
    rolled = true;
  }
  return rolled;
}

/// The last block of K left out, as by a loop that ends one step early.
bool drop_last_block(Call& call, Index block) {
  const char* name = call.has("x.codes") ? "x.codes" : "x";
  if (!call.is_product() || call.input(name).extent(1) <= block) return false;
  Tensor x = call.input(name);
  const std::size_t size = size_of(x.dtype());
  const auto row = static_cast<std::size_t>(x.extent(1)) * size;
  const auto tail = static_cast<std::size_t>(block) * size;
  for (Index r = 0; r < x.extent(0); ++r) {
    std::memset(x.data() + static_cast<std::size_t>(r + 1) * row - tail, 0, tail);
  }
  call.replace(name, std::move(x));
  return true;
}

bool unit_scales(Call& call) {
  bool changed = false;
  for (const char* name : {"x.scales", "w.scales"}) {
    if (!call.has(name)) continue;
    Tensor scales = call.input(name);
    for (Index i = 0; i < scales.elements(); ++i) {
      if (scales.dtype() == Dtype::f32) {
        scales.as<float>()[i] = 1.0f;
      } else {
        scales.as<std::uint8_t>()[i] = 127;
      }
    }
    call.replace(name, std::move(scales));
    changed = true;
  }
  return changed;
}

bool round_input(Call& call) {
  if (!call.has("x") || size_of(call.input("x").dtype()) != 4) return false;
  Tensor x = call.input("x");
  for (Index i = 0; i < x.elements(); ++i) {
    x.as<float>()[i] = decode(encode<kBF16>(x.as<float>()[i]));
  }
  call.replace("x", std::move(x));
  return true;
}

}  // namespace

void add_input_hypotheses(const Call& call, std::vector<Hypothesis>& list) {
  if (call.has("x") && !call.is_product()) {
    add(list, "x=bf16", "x is rounded to bf16 first", round_input);
  }
  if (call.has("x") && call.input("x").rank() >= 2 && !call.is_product()) {
    add(list, "x=transposed", "x is read transposed",
        [](Call& c) { return read_transposed(c, "x"); });
  }
  if (call.has("group_ends")) {
    add(list, "group_ends-1", "groups end one row early",
        [](Call& c) { return shift_ends(c, -1); });
    add(list, "group_ends+1", "groups end one row late", [](Call& c) { return shift_ends(c, 1); });
  }
  if (call.op == "dequantize") {
    add(list, "scales=transposed", "scales are read along the wrong axis",
        [](Call& c) { return read_transposed(c, "scales"); });
  }
  if (!call.is_product()) return;
  for (const std::string side : {"x", "w"}) {
    add(list, side + ".scales=linear_as_tiles",
        "linear scales of " + side + " are read as 128x4 tiles (not swizzled)",
        [side](Call& c) { return misread_scales(c, side + ".scales", true); });
    add(list, side + ".scales=tiles_as_linear",
        "the scales of " + side + " are swizzled once more than they are read back",
        [side](Call& c) { return misread_scales(c, side + ".scales", false); });
    add(list, side + ".scales=transposed",
        "the scales of " + side + " are read along the wrong axis",
        [side](Call& c) { return read_transposed(c, side + ".scales"); });
    const std::string codes = call.op == "grouped_matmul_bf16" ? side : side + ".codes";
    add(list, codes + "=transposed", side + " is read transposed",
        [codes](Call& c) { return read_transposed(c, codes); });
  }
  add(list, "scales=exchanged", "the scales of x and w are exchanged", exchange_scales);
  add(list, "scales=1", "the scales are left out", unit_scales);
  add(list, "expert+1", "every group is multiplied by the next expert's weights",
      [](Call& c) { return roll_experts(c, 1); });
  add(list, "expert-1", "every group is multiplied by the previous expert's weights",
      [](Call& c) { return roll_experts(c, -1); });
  for (const Index block : {32, 64, 128}) {
    add(list, "k-" + std::to_string(block),
        "the last " + std::to_string(block) + " of K are left out",
        [block](Call& c) { return drop_last_block(c, block); });
  }
}

}  // namespace mxo
