// Grouped products that are hard to get right: shapes and memory.
#include "tests/support/gemm_cases.h"

#include <sstream>
#include <string_view>

#include "tests/support/gemm_fill.h"

namespace mxo::test {
namespace {

constexpr std::string_view kScalings[] = {"mx", "bf16", "rowwise", "blockwise"};
constexpr std::string_view kFillNames[] = {"moderate", "wide",    "cancelling",
                                           "giant",    "special", "ties"};
constexpr std::string_view kLayouts[] = {"packed", "padded", "exchanged", "reversed"};

template <typename Enum>
std::size_t index(Enum value) {
  return static_cast<std::size_t>(value);
}

}  // namespace

std::string describe(const GemmSpec& s) {
  std::ostringstream text;
  text << kScalings[index(s.scaling)] << (s.pass == Pass::forward ? " forward " : " wgrad ")
       << name_of(s.a) << " x " << name_of(s.b) << " -> " << name_of(s.out) << ", groups";
  for (const Index rows : s.groups) text << ' ' << rows;
  text << " spare " << s.spare_rows << ", N " << s.n << ", K " << s.k << ", "
       << kFillNames[index(s.fill)] << ", " << kLayouts[index(s.layout)] << ", seed " << s.seed;
  return text.str();
}

GemmCase::GemmCase(const GemmSpec& spec)
    : a_dtype(spec.scaling == Scaling::none ? Dtype::bf16 : spec.a),
      b_dtype(spec.scaling == Scaling::none ? Dtype::bf16 : spec.b),
      scale_dtype(spec.scaling == Scaling::mx ? Dtype::e8m0 : Dtype::f32),
      spec_(spec) {
  const auto groups = static_cast<Index>(spec.groups.size());
  const Index n = spec.n;
  const Index k = spec.k;
  const Layout l = spec.layout;
  const bool forward = spec.pass == Pass::forward;
  a = GuardedTensor(a_dtype, {rows(), forward ? k : n}, l);
  b = forward ? GuardedTensor(b_dtype, {groups, n, k}, l) : GuardedTensor(b_dtype, {rows(), k}, l);
  out = forward ? GuardedTensor(spec.out, {rows(), n}, l)
                : GuardedTensor(spec.out, {groups, n, k}, l);
  const auto scales = [&](std::vector<Index> extent) {
    return GuardedTensor(scale_dtype, std::move(extent), l);
  };
  switch (spec.scaling) {
    case Scaling::none: break;
    case Scaling::mx:
      a_scales = forward ? scales({rows(), k / 32}) : scales({rows() / 32, n});
      b_scales = forward ? scales({groups, n, k / 32}) : scales({rows() / 32, k});
      break;
    case Scaling::rowwise:
      a_scales = forward ? scales({rows()}) : scales({groups, n});
      b_scales = forward ? scales({groups, n}) : scales({groups, k});
      break;
    case Scaling::blockwise: {
      const Index tiles = ceil_div(k, 128);
      a_scales = forward ? scales({rows(), tiles}) : scales({first_tile(groups), n});
      b_scales =
          forward ? scales({groups, ceil_div(n, 128), tiles}) : scales({first_tile(groups), k});
      break;
    }
  }
  ends = GuardedTensor(Dtype::i32, {groups}, l);
  for (Index g = 0; g < groups; ++g) {
    ends.set_bits(ends.offset({g}), static_cast<std::uint32_t>(start(g + 1)));
  }
  fill_operands(*this);
}

std::vector<std::byte> GemmCase::run(Backend& backend, const Accumulation& sum) {
  out.wipe();
  const bool scaled = spec_.scaling != Scaling::none;
  GuardedCopy at_a(backend, a);
  GuardedCopy at_b(backend, b);
  GuardedCopy at_a_scales(backend, a_scales);
  GuardedCopy at_b_scales(backend, b_scales);
  GuardedCopy at_ends(backend, ends);
  GuardedCopy at_out(backend, out);
  const Operand sa = scaled ? at_a_scales.operand() : Operand{};
  const Operand sb = scaled ? at_b_scales.operand() : Operand{};
  if (spec_.pass == Pass::forward) {
    grouped_matmul(backend, {at_a.operand(), sa, at_b.operand(), sb, at_ends.operand(),
                             spec_.scaling, sum, at_out.result()});
  } else {
    grouped_matmul_wgrad(backend, {at_a.operand(), sa, at_b.operand(), sb, at_ends.operand(),
                                   spec_.scaling, sum, at_out.result()});
  }
  backend.synchronize();
  at_out.read_back();
  return out.memory();
}

Index GemmCase::start(Index g) const {
  Index row = 0;
  for (Index i = 0; i < g; ++i) row += spec_.groups[static_cast<std::size_t>(i)];
  return row;
}
Index GemmCase::first_tile(Index g) const {
  Index tile = 0;
  for (Index i = 0; i < g; ++i) tile += ceil_div(spec_.groups[static_cast<std::size_t>(i)], 128);
  return tile;
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
  if (spec_.pass == Pass::forward) {
    const Index code = a.offset({s + i, c});
    switch (spec_.scaling) {
      case Scaling::none: return {code, -1};
      case Scaling::mx: return {code, a_scales.offset({s + i, c / 32})};
      case Scaling::rowwise: return {code, a_scales.offset({s + i})};
      case Scaling::blockwise: return {code, a_scales.offset({s + i, c / 128})};
    }
  }
  const Index code = a.offset({s + c, i});
  switch (spec_.scaling) {
    case Scaling::none: break;
    case Scaling::mx: return {code, a_scales.offset({(s + c) / 32, i})};
    case Scaling::rowwise: return {code, a_scales.offset({g, i})};
    case Scaling::blockwise: return {code, a_scales.offset({first_tile(g) + c / 128, i})};
  }
  return {code, -1};
}

GemmCase::Place GemmCase::place_b(Index g, Index j, Index c) const {
  if (spec_.pass == Pass::forward) {
    const Index code = b.offset({g, j, c});
    switch (spec_.scaling) {
      case Scaling::none: return {code, -1};
      case Scaling::mx: return {code, b_scales.offset({g, j, c / 32})};
      case Scaling::rowwise: return {code, b_scales.offset({g, j})};
      case Scaling::blockwise: return {code, b_scales.offset({g, j / 128, c / 128})};
    }
  }
  const Index s = start(g);
  const Index code = b.offset({s + c, j});
  switch (spec_.scaling) {
    case Scaling::none: break;
    case Scaling::mx: return {code, b_scales.offset({(s + c) / 32, j})};
    case Scaling::rowwise: return {code, b_scales.offset({g, j})};
    case Scaling::blockwise: return {code, b_scales.offset({first_tile(g) + c / 128, j})};
  }
  return {code, -1};
}

Index GemmCase::place_out(Index g, Index i, Index j) const {
  return spec_.pass == Pass::forward ? out.offset({start(g) + i, j}) : out.offset({g, i, j});
}

std::vector<GemmSpec> hostile_specs(int turns) {
  std::vector<GemmSpec> all;
  std::uint64_t seed = 1;
  const auto add = [&](Scaling scaling, Pass pass, std::vector<Index> groups, Index spare, Index n,
                       Index k) {
    const bool mx = scaling == Scaling::mx;
    if (mx && pass == Pass::wgrad) {
      for (Index& rows : groups) rows = round_up(rows, 32);
      spare = round_up(spare, 32);
    }
    GemmSpec s;
    s.scaling = scaling;
    s.pass = pass;
    s.groups = std::move(groups);
    s.spare_rows = spare;
    s.n = n;
    s.k = mx && pass == Pass::forward ? round_up(k, 32) : k;
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
  for (const Scaling scaling : {Scaling::mx, Scaling::none, Scaling::rowwise, Scaling::blockwise}) {
    for (const Pass pass : {Pass::forward, Pass::wgrad}) {
      for (int turn = 0; turn < turns; ++turn) {
        add(scaling, pass, {1}, 0, 1, 32);                        // one row, one column, one block
        add(scaling, pass, {0, 0, 37, 0, 1, 0}, 5, 17, 96);       // empties around; rows not owed
        add(scaling, pass, {0, 40, 0}, 0, 33, 130);               // all rows in one group
        add(scaling, pass, {3, 1, 2, 5, 1, 1, 7, 4}, 2, 40, 64);  // many small groups
        add(scaling, pass, {65, 31, 129}, 33, 15, 33);            // ragged against every tile
        add(scaling, pass, {4, 9}, 0, 130, 160);                  // past one 128 tile of N and K
        add(scaling, pass, {2, 3}, 1, 5, 416);                    // long K
        add(scaling, pass, {0, 0}, 4, 9, 32);                     // nothing is owed
        add(scaling, pass, {4, 5}, 0, 6, 0);                      // K = 0
        add(scaling, pass, {4, 5}, 0, 0, 32);                     // N = 0
        add(scaling, pass, {}, 3, 4, 32);                         // no groups
      }
    }
  }
  return all;
}

}  // namespace mxo::test
