// Blocks of other extents or across experts, scales read as bytes, and shapes that tell of them.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <set>

#include "golden/explain/hypotheses.h"
#include "golden/explain/find/product/finders.h"
#include "ops/catalogue/scale_parameters.h"

namespace mxo {
namespace {

bool takes_block(const Call& call) {
  const auto& parameters = catalogue_entry(call.op).parameters;
  return std::any_of(parameters.begin(), parameters.end(),
                     [](const ParameterSpec& spec) { return spec.key == "block"; });
}

Dtype scale_of(const Call& call) {
  if (call.has("scales"))
    return size_of(call.input("scales").dtype()) == 1 ? Dtype::e8m0 : Dtype::f32;
  return scale_choice(call.op, call.set).scale;
}

/// The block of the call; of a tensor to be dequantised the one that its shapes have.
BlockExtents own_block(const Call& call) {
  if (call.has("scales") && !call.set.has("block")) {
    const std::vector<Index>& codes = call.input("codes").shape();
    const std::vector<Index>& scales = call.input("scales").shape();
    if (codes.size() < 2 || scales.size() != codes.size()) return {1, 1};
    const auto extent = [&](std::size_t axis) {
      return block_of(codes[axis], std::max<Index>(1, scales[axis]));
    };
    return {extent(codes.size() - 2), extent(codes.size() - 1)};
  }
  return scale_choice(call.op, call.set).block;
}

/// The tensor that has blocks: x, or the codes.
const char* blocked_operand(const Call& call) {
  return call.has("codes") ? "codes" : call.has("x") ? "x" : nullptr;
}

void set_block(Call& call, const std::string& block) {
  const std::string scale = scale_of(call) == Dtype::e8m0 ? "e8m0" : "f32";
  call.set.set("block", block);
  call.set.set("scale", scale);
}

/// Extents that share `n` out among as many blocks as extents of `own` do: evenly, and in whole
/// runs of powers of two.
std::set<Index> evenly(Index n, Index own) {
  std::set<Index> found;
  const Index blocks = ceil_div(n, own);
  if (blocks < 2) return found;
  for (Index run = 1; run <= 64; run *= 2) {
    const Index extent = round_up(ceil_div(n, blocks), run);
    if (extent != own && ceil_div(n, extent) == blocks) found.insert(extent);
  }
  return found;
}

/// As many scales along an axis as blocks of `extent` need, the last standing for those beyond it.
bool take_scales(Call& call, int axis, Index n, Index extent) {
  const Tensor& scales = call.input("scales");
  std::vector<Index> kept = range_of(extent == kWhole ? 1 : ceil_div(n, extent));
  for (Index& i : kept) i = std::min(i, scales.extent(axis) - 1);
  call.replace("scales", gathered(scales, axis, kept));
  return true;
}

/// Extents along one axis: as many blocks, or half and twice as many where scales are read.
void add_extents(const Call& call, const BlockExtents& own, int axis,
                 std::vector<Hypothesis>& list) {
  const Tensor& blocked = call.input(blocked_operand(call));
  const bool rows = axis == blocked.rank() - 2;
  const Index extent = rows ? own.rows : own.columns;
  if (extent == kWhole) return;
  const Index n = blocked.extent(axis);
  std::set<Index> extents = evenly(n, extent);
  const bool reads = call.has("scales") && call.input("scales").rank() == blocked.rank();
  if (reads && extent > 1) extents.insert({extent / 2, extent * 2});
  for (const Index other : extents) {
    const BlockExtents block =
        rows ? BlockExtents{other, own.columns} : BlockExtents{own.rows, other};
    const std::string name = name_of(block);
    list.push_back({"block=" + name, "blocks are " + name + " rather than " + name_of(own),
                    Stage::rule, [name, reads, axis, n, other](Call& c) {
                      set_block(c, name);
                      return !reads || take_scales(c, axis, n, other);
                    }});
  }
}

/// [E, R, K] as [E R, K].
Tensor as_one_matrix(const Tensor& t) {
  Tensor flat(t.dtype(), {t.elements() / std::max<Index>(1, t.shape().back()), t.shape().back()});
  std::memcpy(flat.data(), t.data(), std::min(t.bytes(), flat.bytes()));
  return flat;
}

/// As many rows of scales as there are, those that are missing being zeros.
void resize(Tensor& t, std::vector<Index> shape) {
  Tensor resized(t.dtype(), std::move(shape));
  std::memcpy(resized.data(), t.data(), std::min(t.bytes(), resized.bytes()));
  t = std::move(resized);
}

/// Whether blocks of all experts as one matrix are others than those of each.
bool mixes_experts(const Call& call, const BlockExtents& own) {
  const Tensor& x = call.input(blocked_operand(call));
  if (x.rank() != 3 || x.extent(0) < 2 || x.elements() == 0) return false;
  return own.rows == kWhole || x.extent(1) % own.rows != 0;
}

bool join_experts(Call& call, const BlockExtents& own) {
  if (call.has("scales")) {
    Tensor scales = as_one_matrix(call.input("scales"));
    const Index rows = call.input("codes").extent(0) * call.input("codes").extent(1);
    const Index needed = own.rows == kWhole ? 1 : ceil_div(rows, own.rows);
    if (needed > scales.extent(0)) return false;
    resize(scales, {needed, scales.extent(1)});
    call.replace("scales", std::move(scales));
  }
  set_block(call, name_of(own));
  const char* name = blocked_operand(call);
  call.replace(name, as_one_matrix(call.input(name)));
  return true;
}

constexpr const char* kOneMatrix =
    "all experts are taken as one matrix: blocks run on across experts rather than begin again "
    "with each";

void add_one_matrix(const Call& call, const BlockExtents& own, std::vector<Hypothesis>& list) {
  if (!mixes_experts(call, own)) return;
  const Index experts = call.input(blocked_operand(call)).extent(0);
  Hypothesis h{"block=across_experts", kOneMatrix, Stage::rule,
               [own](Call& c) { return join_experts(c, own); }};
  // In a tensor of the shape that is expected scales are fewer: the rest is zeros.
  h.rewrite = [experts, own](const Call& c, NamedTensors& out) {
    const auto scales = out.find("scales");
    if (scales == out.end()) return true;
    if (own.rows == kWhole) {  // one for all stands for each
      scales->second = gathered(scales->second, 0,
                                std::vector<Index>(static_cast<std::size_t>(experts), Index{0}));
      return true;
    }
    const Index rows = c.input("x").extent(0) / experts;
    resize(scales->second, {experts * ceil_div(rows, own.rows), scales->second.shape().back()});
    return true;
  };
  list.push_back(std::move(h));
}

/// Rows that scales of one side of a product cover, other than they should.
void add_rows_of_scales(const Product& p, std::vector<Hypothesis>& list) {
  for (const ProductSide* f : {&p.a, &p.b}) {
    if (f->scales == nullptr || f->scales->rank() != f->codes->rank() || p.wgrad) continue;
    const int axis = f->codes->rank() - 2;
    const Index rows = f->codes->extent(axis);
    const Index blocks = f->scales->extent(axis);
    const Index experts = f->codes->rank() == 3 ? f->codes->extent(0) : 1;
    if (blocks < 1 || blocks >= rows) continue;
    const Index own = block_of(rows, blocks);
    const std::string block = f == &p.a ? "block_x" : "block_w";
    const auto add = [&](const std::string& id, const std::string& phrase, auto source) {
      Hypothesis h{f->scales_name + "=" + id, side_words(*f) + phrase, Stage::input};
      h.alter = [name = f->scales_name, block, rows, experts, depth = p.block, source](Call& c) {
        const Tensor flat = as_one_matrix(c.input(name));
        std::vector<Index> from;
        for (Index e = 0; e < experts; ++e) {
          for (Index r = 0; r < rows; ++r) from.push_back(source(e, r));
        }
        Tensor each = gathered(flat, 0, from);
        if (experts > 1 || c.input(name).rank() == 3) resize(each, {experts, rows, flat.extent(1)});
        c.set.set(block, "1x" + std::to_string(depth));
        c.replace(name, std::move(each));
        return true;
      };
      list.push_back(std::move(h));
    };
    std::set<Index> extents = evenly(rows, own);
    for (const Index extent : {own / 2, own * 2}) {
      if (extent > 0) extents.insert(extent);
    }
    for (const Index extent : extents) {
      add("rows_of_block",
          " are taken for blocks of " + std::to_string(extent) + " rows rather than " +
              std::to_string(own),
          [extent, blocks](Index e, Index r) {
            return e * blocks + std::min(r / extent, blocks - 1);
          });
    }
    if (experts < 2 || rows % own == 0) continue;
    add("across_experts", " are taken for those of one matrix, whose blocks run across experts",
        [own, rows](Index e, Index r) { return (e * rows + r) / own; });
  }
}

/// f32 scales of which each byte is taken for one e8m0 scale: bytes of the line, of the matrix, or
/// of the whole tensor from its begin on.
bool read_bytes(Call& call, const std::string& name, Index run) {
  const Tensor given = call.input(name);
  Tensor seen = given;
  const auto* bytes = reinterpret_cast<const std::uint8_t*>(given.data());
  for (Index i = 0; i < given.elements(); ++i) {
    const Index first = i / run * run;
    seen.as<float>()[i] = std::ldexp(1.0f, bytes[4 * first + i - first] - 127);
  }
  call.replace(name, std::move(seen));
  return true;
}

void add_bytes(const Product& p, std::vector<Hypothesis>& list) {
  for (const ProductSide* f : {&p.a, &p.b}) {
    if (f->scales == nullptr || f->scales->dtype() != Dtype::f32 || f->scales->rank() < 2) continue;
    const Index columns = f->scales->shape().back();
    const Index rows = f->scales->extent(f->scales->rank() - 2);
    Index before = 1;  // a run of one scale is its lowest byte
    struct Run {
      const char* words;
      Index scales;
    };
    for (const Run& run : {Run{"of their line", columns}, Run{"of their matrix", rows * columns},
                           Run{"of the whole tensor", f->scales->elements()}}) {
      if (run.scales <= before) continue;
      before = run.scales;
      list.push_back(
          {f->scales_name + "=bytes",
           "the bytes of the f32 " + side_words(*f).substr(4) +
               " are read as packed e8m0 scales, one after the other from the begin " + run.words,
           Stage::input,
           [name = f->scales_name, n = run.scales](Call& c) { return read_bytes(c, name, n); }});
    }
  }
}

/// A setting under which outputs have another shape.
void add_setting(const std::string& key, const std::string& value, const std::string& phrase,
                 std::vector<Hypothesis>& list) {
  list.push_back({key + "=" + value, phrase, Stage::rule, [key, value](Call& c) {
                    c.set.set(key, value);
                    return true;
                  }});
}

}  // namespace

void add_block_hypotheses(const Call& call, std::vector<Hypothesis>& list) {
  if (const std::optional<Product> p = product_of(call)) {
    add_bytes(*p, list);
    return add_rows_of_scales(*p, list);
  }
  if (!takes_block(call) || blocked_operand(call) == nullptr) return;
  if (call.input(blocked_operand(call)).rank() < 2 || call.op.starts_with("swiglu")) return;
  const BlockExtents own = own_block(call);
  const int rank = call.input(blocked_operand(call)).rank();
  for (const int axis : {rank - 2, rank - 1}) add_extents(call, own, axis, list);
  add_one_matrix(call, own, list);
}

void add_shape_hypotheses(const Call& call, std::vector<Hypothesis>& list) {
  if (!takes_block(call) || blocked_operand(call) == nullptr || call.has("scales")) return;
  if (call.input(blocked_operand(call)).rank() < 2) return;
  const BlockExtents own = own_block(call);
  if (mixes_experts(call, own)) {
    list.push_back({"block=across_experts", kOneMatrix, Stage::rule,
                    [own](Call& c) { return join_experts(c, own); }});
  }
  const auto other_axis = [](Index n, const char* whole) {
    return n == kWhole ? std::string(whole) : std::to_string(n);
  };
  std::set<std::string> listed{name_of(own)};
  std::vector<std::string> names{other_axis(own.columns, "R") + "x" + other_axis(own.rows, "K")};
  for (const char* name : {"1x16", "1x32", "1x64", "1x128", "1x256", "1x512", "16x1", "32x1",
                           "64x1", "128x1", "32x32", "64x64", "128x128", "1xK", "Rx1", "RxK"}) {
    names.emplace_back(name);
  }
  for (const std::string& name : names) {
    if (!listed.insert(name).second) continue;
    list.push_back({"block=" + name, "blocks are " + name + " rather than " + name_of(own),
                    Stage::rule, [name](Call& c) {
                      set_block(c, name);
                      return true;
                    }});
  }
  const bool bytes = scale_of(call) == Dtype::e8m0;
  const std::string other = bytes ? "f32" : "e8m0";
  list.push_back({"scale=" + other,
                  "scales are " + other + " rather than " + (bytes ? "e8m0" : "f32"), Stage::rule,
                  [own, other](Call& c) {
                    c.set.set("block", name_of(own));
                    c.set.set("scale", other);
                    return true;
                  }});
  if (call.has("group_ends")) {
    list.push_back({"group_ends=ignored", "blocks do not begin anew where a group does",
                    Stage::rule, [](Call& c) { return c.inputs.erase("group_ends") > 0; }});
  }
  const std::string layout(call.set.text("scale_layout", "row_major"));
  for (const char* value :
       {"row_major", "blocked", "mn_major_tma", "cublas_1x128", "packed_ue8m0", "tiles_8x4"}) {
    if (layout == value) continue;
    add_setting("scale_layout", value,
                std::string("scales lie as ") + value + " rather than " + layout, list);
  }
  const bool transposes = call.set.flag("transpose", false);
  add_setting("transpose", transposes ? "false" : "true",
              transposes ? "the result is not transposed" : "the result is transposed", list);
}

}  // namespace mxo
