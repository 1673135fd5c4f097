// Grouped products that are hard to get right: shapes and memory.
#include "tests/support/gemm_cases.h"

#include <numeric>
#include <optional>
#include <sstream>

#include "emu/prepared.h"
#include "tests/support/gemm_fill.h"

namespace mxo::test {
namespace {

constexpr SideScales kMx{Dtype::e8m0, {1, 32}};
constexpr SideScales kRow{Dtype::f32, {1, kWhole}};
constexpr SideScales kBlock{Dtype::f32, {1, 128}};
constexpr SideScales kSquare{Dtype::f32, {128, 128}};

constexpr SideScales plain(Dtype type) { return {type, {-1, -1}}; }

/// A row of the table of scales: their name, and the sides of a forward product.
struct ScalesRow {
  std::string_view name;
  SideScales a;
  SideScales b;
};
constexpr ScalesRow kScalesRows[] = {
    {"mx", kMx, kMx},
    {"bf16", plain(Dtype::bf16), plain(Dtype::bf16)},
    {"rowwise", kRow, kRow},
    {"blockwise", kBlock, kSquare},
    {"f16", plain(Dtype::f16), plain(Dtype::f16)},
    {"f32", plain(Dtype::f32), plain(Dtype::f32)},
    {"f16_by_rows", plain(Dtype::f16), kRow},
    {"rows_by_tensor", kRow, {Dtype::f32, kWholeTensor}},
    {"rows_by_squares", kRow, kSquare},
    {"blocks_by_blocks", kBlock, kBlock},
    {"squares", kSquare, kSquare},
    {"squares_by_blocks", kSquare, {Dtype::f32, {1, 64}}},
    {"mx_by_rows", kMx, kRow},
    {"mx_squares", {Dtype::e8m0, {32, 32}}, {Dtype::e8m0, {32, 32}}},
    {"mx_by_64", kMx, {Dtype::e8m0, {1, 64}}},
};
constexpr std::string_view kFillNames[] = {"moderate", "wide",    "cancelling",
                                           "giant",    "special", "ties"};
const Lie kLayouts[] = {{"packed"},
                        {"padded", 1, kOddRows, 1},
                        {"exchanged", 1, kOddRows, 1, true},
                        {"reversed", 3, kOddRows, 1, false, true}};

template <typename Enum>
std::size_t index(Enum value) {
  return static_cast<std::size_t>(value);
}

}  // namespace

std::string_view name_of(Scales scales) { return kScalesRows[index(scales)].name; }

std::pair<SideScales, SideScales> sides_of(Scales scales, Pass pass) {
  const ScalesRow& row = kScalesRows[index(scales)];
  if (scales == Scales::blockwise && pass == Pass::wgrad) return {kBlock, kBlock};
  return {row.a, row.b};
}

std::string describe(const GemmSpec& s) {
  std::ostringstream text;
  text << name_of(s.scales) << (s.pass == Pass::forward ? " forward " : " wgrad ") << name_of(s.a)
       << " x " << name_of(s.b) << " -> " << name_of(s.out) << ", groups";
  for (const Index rows : s.groups) text << ' ' << rows;
  text << " spare " << s.spare_rows << ", N " << s.n << ", K " << s.k << ", "
       << kFillNames[index(s.fill)] << ", " << kLayouts[index(s.layout)].name << ", seed "
       << s.seed;
  return text.str();
}

GemmCase::GemmCase(const GemmSpec& spec)
    : a_side(sides_of(spec.scales, spec.pass).first),
      b_side(sides_of(spec.scales, spec.pass).second),
      spec_(spec) {
  a_dtype = a_side.scaled() ? spec.a : a_side.type;
  b_dtype = b_side.scaled() ? spec.b : b_side.type;
  const auto groups = static_cast<Index>(spec.groups.size());
  const Index n = spec.n;
  const Index k = spec.k;
  const Lie& l = kLayouts[index(spec.layout)];
  const bool forward = spec.pass == Pass::forward;
  a = Strided(a_dtype, {rows(), forward ? k : n}, l);
  b = forward ? Strided(b_dtype, {groups, n, k}, l) : Strided(b_dtype, {rows(), k}, l);
  out = forward ? Strided(spec.out, {rows(), n}, l) : Strided(spec.out, {groups, n, k}, l);
  const auto blocks = [](Index extent, Index block) {
    return block == kWhole ? 1 : ceil_div(extent, block);
  };
  if (a_side.scaled()) {
    a_scales = Strided(a_side.type,
                       forward ? std::vector<Index>{blocks(rows(), a_side.block.rows),
                                                    blocks(k, a_side.block.columns)}
                               : scales_of_rows(a_side, n),
                       l);
  }
  if (b_side.scaled()) {
    b_scales = Strided(b_side.type,
                       forward ? std::vector<Index>{groups, blocks(n, b_side.block.rows),
                                                    blocks(k, b_side.block.columns)}
                               : scales_of_rows(b_side, k),
                       l);
  }
  ends = Strided(Dtype::i32, {groups}, l);
  for (Index g = 0; g < groups; ++g)
    ends.set_bits(ends.offset({g}), static_cast<std::uint32_t>(start(g + 1)));
  fill_operands(*this);
}

std::vector<std::byte> GemmCase::run(Backend& backend, const Accumulation& sum) {
  out.wipe();
  Mirror at_a(backend, a), at_b(backend, b), at_a_scales(backend, a_scales);
  Mirror at_b_scales(backend, b_scales), at_ends(backend, ends), at_out(backend, out);
  const bool forward = spec_.pass == Pass::forward;
  const auto side = [&](const Mirror& codes, const Mirror& scales, const SideScales& of) {
    if (!of.scaled()) return unscaled(codes.operand());
    const BlockExtents across{of.block.columns, of.block.rows};
    return ScaledTensor{codes.operand(), scales.operand(), forward ? of.block : across};
  };
  const ScaledTensor first = side(at_a, at_a_scales, a_side);
  ScaledTensor second = side(at_b, at_b_scales, b_side);
  std::optional<PreparedWeights> weights;
  if (prepared) {
    weights.emplace(second.codes, second.scales);
    second.codes = weights->codes();
    second.scales = weights->scales();
  }
  for (int times = prepared ? 2 : 1; times > 0; --times) {
    if (forward) {
      grouped_matmul(backend, {first, second, at_ends.operand(), sum, at_out.result()});
    } else {
      grouped_matmul_wgrad(backend, {first, second, at_ends.operand(), sum, at_out.result()});
    }
  }
  backend.synchronize();
  out.take(at_out.bytes());
  return out.bytes();
}

Index GemmCase::shared_block() const {
  Index shared = 0;
  for (const SideScales* side : {&a_side, &b_side}) {
    const bool changes = side->scaled() && side->block.columns != kWhole;
    if (changes) shared = std::gcd(shared, side->block.columns);
  }
  return shared;
}

Index GemmCase::start(Index g) const {
  Index row = 0;
  for (Index i = 0; i < g; ++i) row += spec_.groups[static_cast<std::size_t>(i)];
  return row;
}
Index GemmCase::first_block(Index g, Index height) const {
  Index block = 0;
  for (Index i = 0; i < g; ++i)
    block += ceil_div(spec_.groups[static_cast<std::size_t>(i)], height);
  return block;
}
std::vector<Index> GemmCase::scales_of_rows(const SideScales& side, Index lines) const {
  const auto groups = static_cast<Index>(spec_.groups.size());
  const Index height = side.block.columns;
  const Index across = side.block.rows == kWhole ? 1 : ceil_div(lines, side.block.rows);
  if (height == kWhole) return {groups, across};
  // Groups end at multiples of a block of e8m0 scales, and rows beyond them have theirs.
  return {side.type == Dtype::e8m0 ? rows() / height : first_block(groups, height), across};
}
Index GemmCase::scale_of_rows(const Strided& scales, const SideScales& side, Index g, Index line,
                              Index c) const {
  const Index height = side.block.columns;
  const Index across = side.block.rows == kWhole ? 0 : line / side.block.rows;
  if (height == kWhole) return scales.offset({g, across});
  return scales.offset({first_block(g, height) + c / height, across});
}
Index GemmCase::rows() const {
  return start(static_cast<Index>(spec_.groups.size())) + spec_.spare_rows;
}
Index GemmCase::lines_a(Index g) const {
  return spec_.pass == Pass::forward ? start(g + 1) - start(g) : spec_.n;
}
Index GemmCase::length(Index g) const {
  return spec_.pass == Pass::forward ? spec_.k : start(g + 1) - start(g);
}
Index GemmCase::outputs() const {
  const auto groups = static_cast<Index>(spec_.groups.size());
  return spec_.pass == Pass::forward ? start(groups) * spec_.n : groups * spec_.n * spec_.k;
}

GemmCase::Place GemmCase::place_a(Index g, Index i, Index c) const {
  const Index s = start(g);
  if (spec_.pass == Pass::wgrad)
    return {a.offset({s + c, i}), a_side.scaled() ? scale_of_rows(a_scales, a_side, g, i, c) : -1};
  const Index code = a.offset({s + i, c});
  if (!a_side.scaled()) return {code, -1};
  return {code, a_scales.offset({(s + i) / a_side.block.rows,
                                 a_side.block.columns == kWhole ? 0 : c / a_side.block.columns})};
}

GemmCase::Place GemmCase::place_b(Index g, Index j, Index c) const {
  if (spec_.pass == Pass::wgrad)
    return {b.offset({start(g) + c, j}),
            b_side.scaled() ? scale_of_rows(b_scales, b_side, g, j, c) : -1};
  const Index code = b.offset({g, j, c});
  if (!b_side.scaled()) return {code, -1};
  return {code, b_scales.offset({g, b_side.block.rows == kWhole ? 0 : j / b_side.block.rows,
                                 b_side.block.columns == kWhole ? 0 : c / b_side.block.columns})};
}

Index GemmCase::place_out(Index g, Index i, Index j) const {
  return spec_.pass == Pass::forward ? out.offset({start(g) + i, j}) : out.offset({g, i, j});
}

std::vector<GemmSpec> hostile_specs(int turns) {
  std::vector<GemmSpec> all;
  std::uint64_t seed = 1;
  const auto add = [&](Scales scales, Pass pass, std::vector<Index> groups, Index spare, Index n,
                       Index k) {
    const bool mx = scales == Scales::mx;
    if (mx && pass == Pass::wgrad) {
      for (Index& rows : groups) rows = round_up(rows, 32);
      spare = round_up(spare, 32);
    }
    GemmSpec s = spec_of(scales, pass, Dtype::bf16, std::move(groups), n,
                         mx && pass == Pass::forward ? round_up(k, 32) : k);
    s.spare_rows = spare;
    s.seed = seed;
    // Walk through formats, outputs, fills and layouts: each meets each in the long run.
    constexpr Dtype formats[] = {Dtype::e4m3, Dtype::e4m3fnuz, Dtype::e5m2};
    s.a = formats[seed % 3];
    s.b = formats[seed / 3 % 3];
    s.out = seed % 2 == 0 ? Dtype::bf16 : Dtype::f32;
    s.fill = kFills[seed / 2 % 6];
    s.layout = static_cast<Layout>(seed / 3 % 4);
    all.push_back(std::move(s));
    ++seed;
  };
  for (const Scales scales : kUsualScales) {
    for (const Pass pass : {Pass::forward, Pass::wgrad}) {
      for (int turn = 0; turn < turns; ++turn) {
        add(scales, pass, {1}, 0, 1, 32);                   // one row, one column, one block
        add(scales, pass, {0, 0, 37, 0, 1, 0}, 5, 17, 96);  // empties around; rows not compared
        add(scales, pass, {0, 40, 0}, 0, 33, 130);          // all rows in one group
        add(scales, pass, {3, 1, 2, 5, 1, 1, 7, 4}, 2, 40, 64);  // many small groups
        add(scales, pass, {65, 31, 129}, 33, 15, 33);            // ragged against every tile
        add(scales, pass, {4, 9}, 0, 130, 160);                  // past one 128 tile of N and K
        add(scales, pass, {2, 3}, 1, 5, 416);                    // long K
        add(scales, pass, {0, 0}, 4, 9, 32);                     // nothing is compared
        add(scales, pass, {4, 5}, 0, 6, 0);                      // K = 0
        add(scales, pass, {4, 5}, 0, 0, 32);                     // N = 0
        add(scales, pass, {}, 3, 4, 32);                         // no groups
      }
    }
  }
  return all;
}

}  // namespace mxo::test
