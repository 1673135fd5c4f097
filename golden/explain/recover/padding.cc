// Rows that are owed zeros because no one fills them: padding of groups, gradients of experts
// without tokens.
#include <algorithm>

#include "formats/scale_layout.h"
#include "golden/explain/product.h"
#include "golden/explain/recover/recover.h"
#include "golden/judge/elements.h"
#include "golden/judge/group_rows.h"
#include "ops/catalogue/scale_parameters.h"

namespace mxo {
namespace {

struct Idle {
  std::vector<std::uint8_t> rows;  ///< 1: owed zeros; elements where the output is one row
  std::string what;
  bool holds(const Output& output, Index i) const {
    const Index at = static_cast<Index>(rows.size()) == output.rows ? i / output.columns : i;
    return rows[static_cast<std::size_t>(at)] != 0;
  }
};

/// What 128x4 tiles of scales [R, C] hold beyond the matrix.
Idle tile_padding(const Call& call, const Output& output) {
  Idle idle;
  const bool quantised = call.op == "quantize" && output.name == "scales" && call.has("x") &&
                         call.set.text("scale_layout", "row_major") == "blocked";
  const bool swizzled = call.op == "swizzle_scales" && call.has("scales") &&
                        call.set.text("layout", "blocked") == "blocked";
  if (!quantised && !swizzled) return idle;
  const Tensor& matrix = call.input(quantised ? "x" : "scales");
  if (matrix.rank() < 2) return idle;
  const Index rows = matrix.shape()[matrix.shape().size() - 2];
  const Index columns = matrix.shape().back() / (quantised ? 32 : 1);
  const Index bytes = blocked_bytes(rows, columns);
  const Index n = output.rows * output.columns;
  if (bytes == 0 || n % bytes != 0 || n == output.rows) return idle;
  idle.what = "padding of tiles";
  idle.rows.assign(static_cast<std::size_t>(n), 1);
  for (Index at = 0; at < n; at += bytes) {
    for (Index i = 0; i < rows * columns; ++i) {
      const Index to = blocked_offset(i / columns, i % columns, ceil_div(columns, kTileColumns));
      idle.rows[static_cast<std::size_t>(at + to)] = 0;
    }
  }
  return idle;
}

/// Of scales [.., C, R4] what a row holds beyond the R rows of x.
Idle row_padding(const Call& call, const Output& output) {
  Idle idle;
  const bool quantised = call.op == "quantize" && output.name == "scales" && call.has("x");
  if (!quantised || call.set.text("scale_layout", "row_major") != "mn_major_tma") return idle;
  const std::vector<Index>& shape = call.input("x").shape();
  if (shape.size() < 2 || scale_choice(call.op, call.set).block.rows != 1) return idle;
  const Index rows = shape[shape.size() - 2];
  const Index n = output.rows * output.columns;
  if (rows >= output.columns || n == output.rows) return idle;
  idle.what = "padding to 16 bytes";
  for (Index i = 0; i < n; ++i) idle.rows.push_back(i % output.columns >= rows);
  return idle;
}

Idle pad_rows(const Call& call, const Output& output, const NamedTensors& expected) {
  Idle idle;
  const auto starts = expected.find("padded_starts");
  const auto ends = expected.find("padded_ends");
  if (call.op != "pad_groups" || output.name != "y" || starts == expected.end() ||
      ends == expected.end()) {
    return idle;
  }
  idle.what = "pad rows";
  idle.rows.assign(static_cast<std::size_t>(output.rows), 1);
  Index begin = 0;
  const std::vector<Index> own = group_ends_of(call.input("group_ends"));
  for (std::size_t g = 0; g < own.size(); ++g) {
    const Index at = starts->second.as<std::int32_t>()[g];
    for (Index r = at; r < std::min(at + own[g] - begin, output.rows); ++r) {
      idle.rows[static_cast<std::size_t>(r)] = 0;
    }
    begin = own[g];
  }
  return idle;
}

/// Rows of a padded layout that hold nobody's tokens.
Idle rows_without_tokens(const Output& output, const NamedTensors& expected) {
  Idle idle;
  const std::string rank = output.name.substr(0, output.name.find('.') + 1);
  const auto indices = expected.find(rank + "indices");
  if (rank.empty() || indices == expected.end() || output.name == rank + "indices" ||
      indices->second.elements() != output.rows) {
    return idle;
  }
  idle.what = "pad rows";
  for (Index r = 0; r < output.rows; ++r) {
    idle.rows.push_back(indices->second.as<std::int32_t>()[r] < 0);
  }
  return idle;
}

Idle empty_experts(const Call& call, const Output& output) {
  Idle idle;
  if (output.name != "dw" || output.expected->rank() != 3 || !call.has("group_ends")) return idle;
  const std::vector<Index> own = group_ends_of(call.input("group_ends"));
  const Index lines = output.expected->extent(1);
  if (static_cast<Index>(own.size()) != output.expected->extent(0)) return idle;
  idle.what = "experts without tokens";
  idle.rows.assign(static_cast<std::size_t>(output.rows), 0);
  for (std::size_t g = 0; g < own.size(); ++g) {
    if (own[g] != (g == 0 ? 0 : own[g - 1])) continue;
    std::fill_n(idle.rows.begin() + static_cast<std::ptrdiff_t>(g) * lines, lines, std::uint8_t{1});
  }
  return idle;
}

/// Rows of a product's output whose line of x or dy is all zeros.
Idle zero_lines(const Call& call, const Output& output) {
  Idle idle;
  const std::optional<Product> p = product_of(call);
  if (!p || output.name != p->output) return idle;
  std::vector<std::uint8_t> rows(static_cast<std::size_t>(output.rows));
  const ElementReader read(p->a.format);
  for (Index g = 0; g < p->groups(); ++g) {
    for (Index i = p->first_line(g); i < p->last_line(g) && p->depth(g) > 0; ++i) {
      bool zero = true;
      for (Index d = 0; d < p->depth(g) && zero; ++d) {
        const Index at = p->wgrad ? (p->begin(g) + d) * p->a_lines + i : i * p->k + d;
        zero = read(bits_at(*p->a.codes, at)).value == 0.0;
      }
      if (zero) rows[static_cast<std::size_t>(p->output_row(g, i))] = 1;
    }
  }
  if (std::none_of(rows.begin(), rows.end(), [](std::uint8_t zero) { return zero; })) return idle;
  idle.what = "lines of " + p->a.name + " that are zero";
  idle.rows = std::move(rows);
  return idle;
}

/// The claim that idle rows hold what is old, if they do.
std::vector<Claim> claim_idle(const Idle& idle, Output& output) {
  if (idle.rows.empty()) return {};
  const auto holds = [&](Index i) {
    return idle.holds(output, i) && output.marks[static_cast<std::size_t>(i)] == Mark::differs;
  };
  const Place place = place_of(output, holds);
  if (place.elements == 0) return {};
  // Something that was never written is old altogether, not in places.
  Index idle_there = 0;
  std::vector<std::uint8_t> touched(static_cast<std::size_t>(output.rows));
  const auto idle_row = [&](Index r) { return idle.holds(output, r * output.columns); };
  for (const Index r : place.rows) {
    for (Index up = r;
         up >= 0 && !touched[static_cast<std::size_t>(up)] && (up == r || idle_row(up)); --up) {
      touched[static_cast<std::size_t>(up)] = 1;
    }
    for (Index down = r + 1;
         down < output.rows && !touched[static_cast<std::size_t>(down)] && idle_row(down); ++down) {
      touched[static_cast<std::size_t>(down)] = 1;
    }
  }
  for (Index r = 0; r < output.rows; ++r) {
    if (!touched[static_cast<std::size_t>(r)]) continue;
    for (Index c = 0; c < output.columns; ++c)
      idle_there += idle.holds(output, r * output.columns + c);
  }
  if (place.elements * 4 < idle_there * 3) return {};
  // Where most of everything differs, idle rows are no place of their own.
  Index idle_all = 0;
  for (Index i = 0; i < output.rows * output.columns; ++i) idle_all += idle.holds(output, i);
  const Index busy = output.owed * output.columns - idle_all;
  if ((output.left - place.elements) * 2 > busy) return {};
  Claim claim;
  claim.id = "not_zero.padding";
  claim.kind = Kind::symptom;
  // Old bytes and bytes that a kernel put there by mistake look the same.
  claim.sentence = place.words + " (" + idle.what + ", zeros expected)" +
                   std::string(place.hold()) +
                   "other bytes: never written, or written with what does not belong there";
  claim.where = place.where;
  claim.elements = static_cast<double>(place.elements);
  std::vector<Index> found;
  for (Index i = 0; i < output.rows * output.columns; ++i) {
    if (holds(i)) found.push_back(i);
  }
  for (const Index i : found) output.settle(i);
  return {claim};
}

/// Ends of groups that count rows of tokens, where ends with padding are expected.
std::vector<Claim> ends_without_padding(Output& output, const NamedTensors& expected) {
  const std::string rank = output.name.substr(0, output.name.find('.') + 1);
  const auto indices = expected.find(rank + "indices");
  if (output.left < 2 || rank.empty() || output.name != rank + "group_ends" ||
      indices == expected.end() || indices->second.dtype() != Dtype::i32 ||
      output.expected->dtype() != Dtype::i32) {
    return {};
  }
  Index tokens = 0;
  Index row = 0;
  for (Index g = 0; g < output.expected->elements(); ++g) {
    const Index end = output.expected->as<std::int32_t>()[g];
    for (; row < std::min(end, indices->second.elements()); ++row)
      tokens += indices->second.as<std::int32_t>()[row] >= 0;
    if (output.actual->as<std::int32_t>()[g] != tokens) return {};
  }
  Claim claim;
  claim.id = "group_ends.unpadded";
  claim.sentence = output.name + " counts rows without the padding of groups";
  claim.where.tensor = output.name;
  claim.elements = static_cast<double>(output.left);
  for (std::size_t i = 0; i < output.marks.size(); ++i) output.settle(static_cast<Index>(i));
  return {claim};
}

}  // namespace

std::vector<Claim> recover_padding(const Call& call, Output& output, const NamedTensors& expected) {
  if (output.left == 0) return {};
  std::vector<Claim> claims = ends_without_padding(output, expected);
  for (const Idle& idle : {pad_rows(call, output, expected), rows_without_tokens(output, expected),
                           empty_experts(call, output), tile_padding(call, output),
                           row_padding(call, output), zero_lines(call, output)}) {
    for (Claim& c : claim_idle(idle, output)) claims.push_back(std::move(c));
  }
  return claims;
}

}  // namespace mxo
