// Blocks of other extents or across experts, f32 scales read as narrower ones, shapes that tell of
// them.
#include <bit>
#include <cmath>
#include <set>

#include "golden/explain/alter/alterations.h"
#include "golden/explain/find/product/finders.h"
#include "golden/explain/steps/steps.h"

namespace mxo {
namespace {

/// The tensor that has blocks: x, or the codes; null where none has.
const char* blocked_operand(const Call& call) {
  if (parameter_of(call, "block") == nullptr) return nullptr;
  const char* name = call.has("codes") ? "codes" : "x";
  return call.has(name) && call.input(name).rank() >= 2 ? name : nullptr;
}

bool has_bytes(const Call& call) {
  if (call.has("scales")) return size_of(call.input("scales").dtype()) == 1;
  return scale_choice(call.op, call.set).scale == Dtype::e8m0;
}

/// The block of the call; of a tensor to be dequantised the one that its shapes have.
BlockExtents own_block(const Call& call) {
  if (!call.has("scales") || call.set.has("block")) return scale_choice(call.op, call.set).block;
  const Matrices codes = matrices_of(call.input("codes"));
  const Matrices scales = matrices_of(call.input("scales"));
  return {block_of(codes.rows, scales.rows), block_of(codes.columns, scales.columns)};
}

/// Sets a block, and the type of scales that the call has, or another.
void set_block(Call& call, const std::string& block, bool bytes) {
  call.set.set("block", block);
  call.set.set("scale", bytes ? "e8m0" : "f32");
}

void add_block(
    List& list, const std::string& block, const BlockExtents& own,
    std::function<void(Call&)> more = [](Call&) {}) {
  add_altered(list, "block=" + block, filled("blocks are {} rather than {}", block, name_of(own)),
              [block, more = std::move(more)](Call& c) {
                set_block(c, block, has_bytes(c));
                more(c);
              })
      .stage = Stage::rule;
}

/// Extents that share `n` out among as many blocks as extents of `own` do: evenly, and in whole
/// runs of powers of two.
std::set<Index> evenly(Index n, Index own) {
  std::set<Index> found;
  const Index blocks = ceil_div(n, own);
  for (Index run = 1; run <= 64 && blocks > 1; run *= 2) {
    const Index extent = round_up(ceil_div(n, blocks), run);
    if (extent != own && ceil_div(n, extent) == blocks) found.insert(extent);
  }
  return found;
}

/// Extents along one axis: as many blocks, or half and twice as many where scales are read, of
/// which the last stands for those beyond it.
void add_extents(const Call& call, const BlockExtents& own, int axis, List& list) {
  const Tensor& blocked = call.input(blocked_operand(call));
  const bool rows = axis == blocked.rank() - 2;
  const Index extent = rows ? own.rows : own.columns;
  if (extent == kWhole) return;
  const Index n = blocked.extent(axis);
  std::set<Index> extents = evenly(n, extent);
  if (call.has("scales") && extent > 1) extents.insert({extent / 2, extent * 2});
  for (const Index other : extents) {
    const auto block = rows ? BlockExtents{other, own.columns} : BlockExtents{own.rows, other};
    add_block(list, name_of(block), own, [axis, blocks = ceil_div(n, other)](Call& c) {
      if (!c.has("scales")) return;
      const Tensor& scales = c.input("scales");
      std::vector<Index> kept = range_of(blocks);
      for (Index& i : kept) i = std::min(i, scales.extent(axis) - 1);
      c.replace("scales", gathered(scales, axis, kept));
    });
  }
}

/// [E, R, K] as [E R, K].
Tensor as_one_matrix(const Tensor& t) {
  const Index columns = t.shape().back();
  return resized(t, {t.elements() / columns, columns});
}

/// Blocks of all experts as one matrix, where they are others than those of each; null where not.
Hypothesis* add_one_matrix(const Call& call, const BlockExtents& own, List& list) {
  const std::string name = blocked_operand(call);
  const Tensor& x = call.input(name);
  const bool even = own.rows != kWhole && x.extent(1) % own.rows == 0;
  if (call.has("scales") || x.rank() != 3 || x.extent(0) < 2 || even) return nullptr;
  Hypothesis& h = add_altered(
      list, "block=across_experts",
      "all experts are taken as one matrix: blocks run on across experts rather than begin again "
      "with each",
      [name, own](Call& c) {
        set_block(c, name_of(own), has_bytes(c));
        c.replace(name, as_one_matrix(c.input(name)));
      });
  h.stage = Stage::rule;
  return &h;
}

/// Scales in tiles that are those of one matrix, of blocks that are the same in either case.
void add_one_tiling(const Call& call, const BlockExtents& own, List& list) {
  const Tensor& x = call.input("x");
  if (x.rank() != 3 || x.extent(0) < 2 || own.rows == kWhole || x.extent(1) % own.rows != 0 ||
      call.set.text("scale_layout", "row_major") == "row_major")
    return;
  add_run(
      list, "scale_layout=across_experts",
      "scales of all experts lie in tiles as those of one matrix: each expert's are not padded to "
      "whole tiles",
      [](Backend& backend, const Call& c) {
        NamedTensors out = run_call(backend, c);
        Call as_one = c;
        as_one.replace("x", as_one_matrix(c.input("x")));
        const NamedTensors one = run_call(backend, as_one);
        out.at("scales") = resized(one.at("scales"), out.at("scales").shape());
        return out;
      })
      .stage = Stage::rule;
}

/// Scales of one matrix in the shape of those of `experts`: of fewer the rest is zeros, and one for
/// all stands for each.
void share_out_scales(const Call& call, NamedTensors& out, const BlockExtents& own, Index experts) {
  Tensor& t = output_of(out, "scales");
  if (own.rows == kWhole) {
    t = gathered(t, 0, std::vector<Index>(static_cast<std::size_t>(experts), Index{0}));
  } else {
    const Index rows = call.input("x").extent(0) / experts;
    t = resized(t, {experts * ceil_div(rows, own.rows), t.shape().back()});
  }
}

/// Blocks of rows that take each other's scales.
constexpr Row<LineMap> kBlockOrders[] = {
    {"pairs", " are exchanged between blocks of {} rows in pairs", in_pairs},
    {"apart", " are those of every second block of {} rows, then of the others", even_then_odd},
    {"interleaved", " are taken from both halves of the blocks of {} rows in turn", halves_in_turn},
    {"reversed", " lie in the reverse order of blocks of {} rows", reversed},
    {"halves", " are exchanged between the halves of the blocks of {} rows", halves_exchanged}};

/// Rows that scales of one side of a product cover, other than they should.
void add_rows_of_scales(const Product& p, const ProductSide& side, List& list) {
  if (side.scales == nullptr || side.scales->rank() != side.codes->rank() || p.wgrad) return;
  const int axis = side.codes->rank() - 2;
  const Index rows = side.codes->extent(axis);
  const Index blocks = side.scales->extent(axis);
  const Index experts = axis == 1 ? side.codes->extent(0) : 1;
  if (blocks < 1 || blocks >= rows) return;
  const Index own = block_of(rows, blocks);
  const auto add = [&](const std::string& id, const std::string& phrase, auto source) {
    std::vector<Index> from;
    for (Index i = 0; i < experts * rows; ++i) from.push_back(source(i / rows, i % rows));
    const std::string name = side.scales_name;
    add_altered(list, filled("{}={}", name, id), side_words(side) + phrase,
                [=, key = "block_" + side.name, depth = p.block](Call& c) {
                  const Tensor& given = c.input(name);
                  Tensor each = gathered(as_one_matrix(given), 0, from);
                  if (given.rank() == 3) each = resized(each, {experts, rows, each.extent(1)});
                  c.set.set(key, filled("1x{}", depth));
                  c.replace(name, std::move(each));
                })
        .target = Target::format;
  };
  std::set<Index> extents = evenly(rows, own);
  extents.insert(own * 2);
  if (own > 1) extents.insert(own / 2);
  for (const Index extent : extents)
    add("rows_of_block", filled(" are taken for blocks of {} rows rather than {}", extent, own),
        [=](Index e, Index r) { return e * blocks + std::min(r / extent, blocks - 1); });
  for (const auto& order : kBlockOrders)
    add("block_order", filled(order.phrase, own),
        [=, of = order.of](Index e, Index r) { return e * blocks + of(r / own, blocks); });
  if (experts < 2 || rows % own == 0) return;
  add("across_experts", " are taken for those of one matrix, whose blocks run across experts",
      [=](Index e, Index r) { return (e * rows + r) / own; });
}

/// Scales of these sides that move on every `step` of the depth: past the last of a line they are
/// those of the next one, or the last.
Hypothesis* add_step(const Product& p, const std::vector<const ProductSide*>& sides, Index step,
                     bool runs_on, List& list) {
  std::string words;
  std::vector<std::pair<std::string, std::string>> scales;  // with the key of their block
  for (const ProductSide* side : sides) {
    if (side->scales == nullptr || side->scales->rank() != side->codes->rank()) return nullptr;
    const int rows = side->codes->rank() - 2;
    words += (words.empty() ? "" : " and ") + side->name;
    scales.emplace_back(
        side->scales_name,
        filled("{}x{}", block_of(side->codes->extent(rows), side->scales->extent(rows)), step));
  }
  return &add_altered(list, scales.size() == 2 ? "scales=step" : scales.front().first + "=step",
                      filled("the scales of {} move on every {} of K rather than every {}{}", words,
                             step, p.block, runs_on ? "" : ", and stay at the last of their line"),
                      [=, blocks = ceil_div(p.k, step), width = ceil_div(p.k, p.block)](Call& c) {
                        for (const auto& [name, block] : scales) {
                          const Tensor& given = c.input(name);
                          if (given.shape().back() != width) return false;
                          std::vector<Index> from;
                          for (Index i = 0; i < given.elements() / width * blocks; ++i) {
                            const Index j = runs_on ? i % blocks : std::min(i % blocks, width - 1);
                            from.push_back(std::min(i / blocks * width + j, given.elements() - 1));
                          }
                          std::vector<Index> shape = given.shape();
                          shape.back() = blocks;
                          c.set.set("block_" + name.substr(0, name.find('.')), block);
                          c.replace(name, elements_from(given, from, std::move(shape)));
                        }
                        return true;
                      });
}

void add_steps(const Call& call, const Product& p, List& list) {
  if (p.wgrad || p.k == 0) return;
  const bool exact = call.set.text("sum", "exact") == "exact";
  using Sides = std::vector<const ProductSide*>;
  for (Index step = p.block / 2; step >= 16 && step * 8 >= p.block; step /= 2) {
    for (const bool runs_on : {true, false}) {
      for (const Sides& sides : {Sides{&p.a}, Sides{&p.b}, Sides{&p.a, &p.b}}) {
        Hypothesis* h = add_step(p, sides, step, runs_on, list);
        // The engines have few extents: others take fixed point for every element.
        if (h == nullptr || !exact) continue;
        h->run = [k = p.k](Backend&, const Call& c) { return host_product(c, {k}); };
        h->on_host = true;
      }
    }
  }
}

/// Parts of f32 scales, each taken for one scale.
constexpr Row<float (*)(const std::byte* scales, Index i)> kParts[] = {
    {"bytes", "the bytes of the f32 {} are read as packed e8m0 scales",
     [](const std::byte* s, Index i) {
       return std::ldexp(1.0f, std::to_integer<int>(s[i]) - 127);
     }},
    {"halves", "the f32 {} are read as bf16 scales, two of each",
     [](const std::byte* s, Index i) {
       const std::uint32_t half = std::to_integer<std::uint32_t>(s[2 * i]) << 16 |
                                  std::to_integer<std::uint32_t>(s[2 * i + 1]) << 24;
       return std::bit_cast<float>(half);
     }},
};

/// f32 scales read as narrower ones: of the line, of the matrix, or of the whole tensor from its
/// begin on.
void add_parts(const ProductSide& side, List& list) {
  if (side.scales == nullptr || side.scales->dtype() != Dtype::f32 || side.scales->rank() < 2)
    return;
  const Matrices m = matrices_of(*side.scales);
  Index before = 1;  // a run of one scale is its lowest part
  for (const auto& [words, run] : {std::pair{"their line", m.columns},
                                   {"their matrix", m.rows * m.columns},
                                   {"the whole tensor", m.elements}}) {
    if (run <= before) continue;
    before = run;
    for (const auto& part : kParts) {
      add_altered(list, filled("{}={}", side.scales_name, part.name),
                  filled(part.phrase, side_words(side).substr(4)) +
                      filled(", one after the other from the begin of {}", words),
                  [name = side.scales_name, n = run, of = part.of](Call& c) {
                    const std::byte* scales = c.input(name).data();
                    map_values(c, name,
                               [&](float, Index i) { return of(scales + i / n * n * 4, i % n); });
                  });
    }
  }
}

/// Blocks that run along the other axis.
void add_other_axis(const Call& call, List& list) {
  if (parameter_of(call, "block") == nullptr) return;
  const std::string now(call.set.text("block", "1x32"));
  const std::size_t by = now.find('x');
  if (by == now.npos) return;
  const auto other_axis = [](const std::string& extent) {
    return extent == "K" ? std::string("R") : extent == "R" ? std::string("K") : extent;
  };
  const std::string other = other_axis(now.substr(by + 1)) + "x" + other_axis(now.substr(0, by));
  if (other == now) return;
  add_set(list, "block", other, filled("blocks are {} rather than {}", other, now));
  if (!call.set.flag("transpose", false)) return;
  // Scales lie as those of codes that are not transposed.
  add_run(list, "block=" + other + "_transposed",
          filled("blocks are {} rather than {}, and codes alone are transposed", other, now),
          [other](Backend& backend, const Call& given) {
            Call plain = given;
            plain.set.set("block", other);
            drop(plain, "transpose");
            NamedTensors out = run_call(backend, plain);
            out.at("codes") = transposed(out.at("codes"));
            return out;
          });
}

}  // namespace

void add_block_hypotheses(const Call& call, List& list) {
  add_other_axis(call, list);
  if (const std::optional<Product> p = product_of(call)) {
    for (const ProductSide* side : {&p->a, &p->b}) add_parts(*side, list);
    for (const ProductSide* side : {&p->a, &p->b}) add_rows_of_scales(*p, *side, list);
    add_steps(call, *p, list);
    return;
  }
  if (blocked_operand(call) == nullptr || call.op.starts_with("swiglu")) return;
  const BlockExtents own = own_block(call);
  const int rank = call.input(blocked_operand(call)).rank();
  add_extents(call, own, rank - 2, list);
  add_extents(call, own, rank - 1, list);
  if (!call.has("codes")) add_one_tiling(call, own, list);
  Hypothesis* one = add_one_matrix(call, own, list);
  if (one == nullptr) return;
  one->rewrite = [own, experts = call.input(blocked_operand(call)).extent(0)](const Call& c,
                                                                              NamedTensors& out) {
    share_out_scales(c, out, own, experts);
    return true;
  };
}

void add_shape_hypotheses(const Call& call, List& list) {
  if (blocked_operand(call) == nullptr || call.has("scales")) return;
  const BlockExtents own = own_block(call);
  add_one_matrix(call, own, list);
  const auto turned = [](Index n, const char* whole) {
    return n == kWhole ? std::string(whole) : std::to_string(n);
  };
  std::set<std::string> listed{name_of(own)};
  std::vector<std::string> names{filled("{}x{}", turned(own.columns, "R"), turned(own.rows, "K"))};
  for (const char* name : {"1x16", "1x32", "1x64", "1x128", "1x256", "1x512", "16x1", "32x1",
                           "64x1", "128x1", "32x32", "64x64", "128x128", "1xK", "Rx1", "RxK"}) {
    names.emplace_back(name);
  }
  for (const std::string& name : names)
    if (listed.insert(name).second) add_block(list, name, own);
  const char* other = has_bytes(call) ? "f32" : "e8m0";
  add_altered(list, filled("scale={}", other),
              filled("scales are {} rather than {}", other, has_bytes(call) ? "e8m0" : "f32"),
              [own](Call& c) { set_block(c, name_of(own), !has_bytes(c)); })
      .stage = Stage::rule;
  if (call.has("group_ends"))
    add_left_out(list, "group_ends", "blocks do not restart at each group", "group_ends=ignored");
  const std::string layout(call.set.text("scale_layout", "row_major"));
  for (const char* value :
       {"row_major", "blocked", "mn_major_tma", "cublas_1x128", "packed_ue8m0", "tiles_8x4"}) {
    if (layout == value) continue;
    add_set(list, "scale_layout", value, filled("scales lie as {} rather than {}", value, layout));
  }
  const bool transposes = call.set.flag("transpose", false);
  add_set(list, "transpose", transposes ? "false" : "true",
          filled("the result is {}transposed", transposes ? "not " : ""));
}

}  // namespace mxo
