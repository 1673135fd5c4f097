// Parts of an output that no one wrote: one bit pattern, padding, gradients of idle experts.
#include "formats/scale_layout.h"
#include "golden/explain/alter/alterations.h"
#include "golden/explain/find/finding.h"
#include "golden/explain/find/output/recover.h"
#include "golden/judge/group_rows.h"

namespace mxo {
namespace {

constexpr std::uint64_t kAnyNan = ~std::uint64_t{0};  ///< all NaNs of a type are one fill
constexpr Index kLeastElements = 8;                   ///< of a fill
constexpr Index kLeastOutput = 16;                    ///< elements of an output
constexpr Index kLeastDown = 16;                      ///< rows, and a fourth of them

/// Zeros and NaN; any other fill may have been computed, too, and has to stand alone.
bool is_plain(std::uint64_t fill) { return fill == 0 || fill == kAnyNan; }

/// What a run of one bit pattern is called.
struct Fill {
  const char* id;
  std::string words;
};
Fill described(Dtype dtype, std::uint64_t fill, Index columns) {
  if (fill == kAnyNan) return {"never_written.nan", "NaN: never written, or computed so"};
  if (fill == 0) return {"never_written.zero", "zeros: never written, cleared, or computed so"};
  static constexpr char kHex[] = "0123456789ABCDEF";
  std::string bits = "0x";
  for (int i = static_cast<int>(size_of(dtype)) * 2 - 1; i >= 0; --i)
    bits += kHex[fill >> (4 * i) & 15];
  const ElementReader read(dtype);
  if (read(fill).infinite)
    return {"constant.infinite",
            bits + ": overflow, a division by zero, or the fill of the buffer"};
  const Element next = read(fill + 1);
  if (next.nan || next.infinite)
    return {"constant.largest",
            bits + ": the largest number, saturated, or the fill of the buffer"};
  const double value = read(fill).value;
  if (columns > 1 && value == static_cast<double>(1.0f / static_cast<float>(columns)))
    return {"constant.fill", "1 / " + std::to_string(columns) + ", as equal shares are"};
  return {"constant.fill",
          bits + ": the fill of the buffer, never written, or one value for all of them"};
}

/// What an element came as: NaN of any kind and zeros of either sign are one fill each, codes of
/// eight bits are zero by their scale, too.
std::uint64_t fill_of(const Output& o, const ElementReader& read, Index i) {
  const std::uint64_t bits = o.actual_bits(i);
  const Element e = read(bits);
  const bool zero = e.value == 0.0 && is_wide_float(o.expected->dtype());
  return e.nan ? kAnyNan : zero ? 0 : bits;
}

/// Elements that differ in runs of one fill, ascending, by fill: along rows, and down columns that
/// are not short.
std::map<std::uint64_t, std::vector<Index>> runs_of_fills(const Output& o) {
  const ElementReader read(o.expected->dtype());
  std::map<std::uint64_t, std::vector<Index>> found;
  for (const bool down : {false, true}) {
    const Lines lines{o, down};
    // Short runs of one code are common.
    const Index least =
        down ? std::max(kLeastDown, o.compared_rows / 4)
             : std::min<Index>(size_of(o.expected->dtype()) == 1 ? 16 : 8, o.columns);
    if (lines.length() < least) continue;
    for (const Index line : lines.failing()) {
      // A run holds one of these, half as long, that begin half of it apart.
      const Index half = std::max<Index>(1, least / 2);
      bool any = false;
      for (Index k = half - 1; k < lines.length() && !any; k += half) {
        const std::uint64_t fill = fill_of(o, read, lines.at(line, k));
        any = true;
        for (Index more = 1; more < half && any; ++more)
          any = fill_of(o, read, lines.at(line, k - more)) == fill;
      }
      if (!any) continue;
      for (Index first = 0, end = 0; first < lines.length(); first = end) {
        const std::uint64_t fill = fill_of(o, read, lines.at(line, first));
        const std::uint64_t wanted = o.expected_bits(lines.at(line, first));
        Index wrong = 0;
        bool varied = is_plain(fill);  // else not all of it should be the same
        for (; end < lines.length() && fill_of(o, read, lines.at(line, end)) == fill; ++end) {
          const Index i = lines.at(line, end);
          wrong += o.differs(i);
          varied = varied || o.expected_bits(i) != wanted;
        }
        if (end - first < least || !varied || wrong * 2 <= end - first) continue;
        for (Index k = first; k < end; ++k)
          if (o.differs(lines.at(line, k))) found[fill].push_back(lines.at(line, k));
      }
    }
  }
  for (auto& [fill, elements] : found) {
    std::ranges::sort(elements);
    elements.erase(std::unique(elements.begin(), elements.end()), elements.end());
  }
  return found;
}

/// Elements that should be zero, by their index, and what they are; none where there are no such.
struct Idle {
  std::string what;
  std::function<bool(Index)> holds;
  bool of_parts = false;  ///< of elements whose other bits are as expected
};

/// Rows that are marked.
Idle idle_rows(const Output& output, std::string what, std::vector<std::uint8_t> rows) {
  return {std::move(what), [rows = std::move(rows), columns = output.columns](Index i) {
            return nth(rows, i / columns) != 0;
          }};
}

/// The matrix of which an output holds the scales in a layout, x or scales as they were given; null
/// where there is none.
const Tensor* laid_out(const Call& call, const Output& output, std::string_view layout) {
  const bool quantised = call.op == "quantize" && output.name == "scales";
  const char* name = quantised ? "x" : "scales";
  const auto own =
      quantised ? call.set.text("scale_layout", "row_major") : call.set.text("layout", "blocked");
  const bool holds = (quantised || call.op == "swizzle_scales") && own == layout && call.has(name);
  return holds && call.input(name).rank() >= 2 ? &call.input(name) : nullptr;
}

/// What 128x4 tiles of scales [R, C] hold beyond the matrix.
Idle tile_padding(const Call& call, const Output& output) {
  const Tensor* matrix = laid_out(call, output, "blocked");
  if (matrix == nullptr) return {};
  const Index rows = matrices_of(*matrix).rows;
  const Index columns = matrix->shape().back() / (call.op == "quantize" ? 32 : 1);
  const Index bytes = blocked_bytes(rows, columns);
  if (bytes == 0 || output.rows * output.columns % bytes != 0 || output.columns == 1) return {};
  std::vector<std::uint8_t> idle(static_cast<std::size_t>(bytes), 1);
  for (Index i = 0; i < rows * columns; ++i) {
    const Index to = blocked_offset(i / columns, i % columns, ceil_div(columns, kTileColumns));
    nth(idle, to) = 0;
  }
  return {"padding of tiles", [=](Index i) { return nth(idle, i % bytes) != 0; }};
}

/// Of scales [.., C, R4], or of words of four of them, what a row holds beyond the R rows.
Idle row_padding(const Call& call, const Output& output) {
  for (const char* layout : {"mn_major_tma", "packed_ue8m0"}) {
    const Tensor* matrix = laid_out(call, output, layout);
    const bool quantised = call.op == "quantize";
    if (matrix == nullptr || (quantised && scale_choice(call.op, call.set).block.rows != 1))
      continue;
    const Index rows = matrices_of(*matrix).rows;
    const Index words = matrices_of(*output.expected).rows;
    const bool packed = !quantised && output.expected->dtype() == Dtype::i32;
    // Bytes of the last word that hold scales.
    const Index used = packed ? matrix->shape().back() - 4 * (words - 1) : 4;
    if (rows >= output.columns && used >= 4) continue;
    const auto holds = [=, &output](Index i) {
      if (i % output.columns >= rows) return true;
      const std::uint64_t apart = output.actual_bits(i) ^ output.expected_bits(i);
      return used < 4 && (i / output.columns + 1) % words == 0 && apart % (1ULL << 8 * used) == 0;
    };
    return {packed ? "padding to 16 bytes, and of words to four scales," : "padding to 16 bytes",
            holds, packed};
  }
  return {};
}

/// The rows of each group that pad_groups adds.
Idle pad_rows(const Call& call, const Output& output, const NamedTensors& expected) {
  const auto starts = expected.find("padded_starts");
  if (call.op != "pad_groups" || output.name != "y" || starts == expected.end()) return {};
  std::vector<std::uint8_t> idle(static_cast<std::size_t>(output.rows), 1);
  Index begin = 0;
  const std::vector<Index> own = group_ends_of(call.input("group_ends"));
  for (std::size_t g = 0; g < own.size(); ++g) {
    const Index at = starts->second.as<std::int32_t>()[g];
    for (Index r = at; r < std::min(at + own[g] - begin, output.rows); ++r) nth(idle, r) = 0;
    begin = own[g];
  }
  return idle_rows(output, "pad rows", std::move(idle));
}

/// The indices of a rank, whose rows that hold no token are negative; null where there are none.
const Tensor* indices_beside(const Output& output, const NamedTensors& expected) {
  const std::string rank = output.name.substr(0, output.name.find('.') + 1);
  const auto indices = expected.find(rank + "indices");
  return rank.empty() || indices == expected.end() ? nullptr : &indices->second;
}

/// Rows of a padded layout that hold nobody's tokens.
Idle rows_without_tokens(const Output& output, const NamedTensors& expected) {
  const Tensor* indices = indices_beside(output, expected);
  if (indices == nullptr || output.name.ends_with(".indices") ||
      indices->elements() != output.rows) {
    return {};
  }
  return {"pad rows", [=, columns = output.columns](Index i) {
            return indices->as<std::int32_t>()[i / columns] < 0;
          }};
}

/// Rows of unpermute that no index names.
Idle unnamed_rows(const Call& call, const Output& output) {
  if (call.op != "unpermute") return {};
  std::vector<std::uint8_t> idle(static_cast<std::size_t>(output.rows), 1);
  const Tensor& indices = call.input("indices");
  for (Index i = 0; i < indices.elements(); ++i) {
    const std::int32_t r = indices.as<std::int32_t>()[i];
    if (r >= 0 && r < output.rows) nth(idle, r) = 0;
  }
  return idle_rows(output, "rows that no index names", std::move(idle));
}

Idle empty_experts(const Call& call, const Output& output) {
  if (output.name != "dw" || output.expected->rank() != 3 || !call.has("group_ends")) return {};
  const std::vector<Index> own = group_ends_of(call.input("group_ends"));
  if (std::ssize(own) != output.expected->extent(0)) return {};
  const Index elements = output.expected->extent(1) * output.columns;  // of an expert
  return {"experts without tokens", [=](Index i) {
            const Index e = i / elements;
            return nth(own, e) == (e == 0 ? 0 : nth(own, e - 1));
          }};
}

/// Rows of a product's output whose line of x or dy is all zeros.
Idle zero_lines(const Call& call, const Output& output) {
  const std::optional<Product> p = product_of(call);
  if (!p || output.name != p->output) return {};
  std::vector<std::uint8_t> idle(static_cast<std::size_t>(output.rows));
  const ElementReader read(p->a.format);
  for (Index g = 0; g < p->groups(); ++g) {
    for (Index i = p->first_line(g); i < p->last_line(g) && p->depth(g) > 0; ++i) {
      bool zero = true;
      for (Index d = 0; d < p->depth(g) && zero; ++d) {
        const Index at = p->wgrad ? (p->begin(g) + d) * p->a_lines + i : i * p->k + d;
        zero = read(bits_at(*p->a.codes, at)).value == 0.0;
      }
      nth(idle, p->output_row(g, i)) = zero;
    }
  }
  if (std::find(idle.begin(), idle.end(), 1) == idle.end()) return {};
  return idle_rows(output, "lines of " + p->a.name + " that are zero", std::move(idle));
}

/// The cause that idle rows hold what is old, if they do.
Claims claim_idle(const Idle& idle, Output& output) {
  if (!idle.holds) return {};
  const ElementReader read(output.expected->dtype());
  Index all = 0;
  Index wrong = 0;
  Index there = 0;  // in runs of rows, or parts of rows, of which some came wrong
  for (Index i = 0; i < output.rows * output.columns;) {
    Index idle_here = 0;
    Index wrong_here = 0;
    do {
      for (const Index end = i + output.columns; i < end; ++i) {
        if (!idle.holds(i)) continue;
        // A bias or a gradient to add to may be expected there.
        const std::uint64_t own = output.expected_bits(i);
        if (!idle.of_parts && own != 0 && read(own).value != 0.0) return {};
        ++idle_here;
        wrong_here += output.differs(i);
      }
    } while (i < output.rows * output.columns && idle.holds(i));
    all += idle_here;
    wrong += wrong_here;
    if (wrong_here > 0) there += idle_here;
  }
  // Something that was never written is old altogether, not in places.
  if (wrong * 4 < there * 3) return {};
  // Where most of everything differs, idle rows are no place of their own.
  if ((output.left - wrong) * 2 > compared(output) - all) return {};
  // Old bytes and bytes that a kernel put there by mistake look the same.
  return claim_where(output, {"not_zero.padding", FindingKind::symptom, true}, idle.holds,
                     [&](const Place& place) {
                       const std::string where =
                           idle.of_parts
                               ? filled("{} of {} (zeros expected) holds ", idle.what, place.words)
                               : filled("{} ({}, zeros expected){}", place.words, idle.what,
                                        place.hold());
                       return where + "other bytes: never written, overwritten, or computed so";
                     });
}

/// Ends of groups that count rows of tokens, where ends with padding are expected.
Claims claim_ends_without_padding(Output& output, const NamedTensors& expected) {
  const Tensor* indices = indices_beside(output, expected);
  if (output.left < 2 || indices == nullptr || !output.name.ends_with(".group_ends")) return {};
  Index tokens = 0;
  Index row = 0;
  for (Index g = 0; g < output.expected->elements(); ++g) {
    const Index end = output.expected->as<std::int32_t>()[g];
    for (; row < std::min(end, indices->elements()); ++row)
      tokens += indices->as<std::int32_t>()[row] >= 0;
    if (output.actual->as<std::int32_t>()[g] != tokens) return {};
  }
  return claim_all(output, {"group_ends.unpadded"},
                   output.name + " counts rows without the padding of groups");
}

}  // namespace

Claims recover_unwritten(Output& output) {
  if (output.left == 0 || output.expected->elements() < kLeastOutput) return {};
  const Dtype dtype = output.expected->dtype();
  const ElementReader read(dtype);
  const auto found = runs_of_fills(output);
  std::map<std::uint64_t, std::size_t> everywhere;
  for (Index i = 0; i < compared(output) && !found.empty(); ++i) {
    if (!output.differs(i)) continue;
    const std::uint64_t fill = fill_of(output, read, i);
    if (found.contains(fill)) ++everywhere[fill];
  }
  Claims claims;
  for (const auto& [fill, elements] : found) {
    // Among many scattered ones a few are neighbours by chance; many scales are the same.
    if (elements.size() * 2 < everywhere[fill] || elements.size() < kLeastElements) continue;
    if (!is_plain(fill) && size_of(dtype) == 1 && output.name.ends_with("scales")) continue;
    // What came for one value that is expected was computed so.
    const auto is_filled = [&all = elements](Index i) {
      return std::ranges::binary_search(all, i);
    };
    if (fill != 0 && !are_of_several_values(output, is_filled, 2)) continue;
    const Fill said = described(dtype, fill, output.columns);
    const auto words = [&, fill = fill](const Place& place) {
      // Of a place that holds other values, too, elements are counted.
      const bool all = std::ranges::all_of(place.rows, [&](Index r) {
        return std::ranges::all_of(place.columns, [&](Index c) {
          return fill_of(output, read, r * output.columns + c) == fill;
        });
      });
      return all ? filled("{}{}{}", place.words, place.hold(), said.words)
                 : filled("{} elements in {} hold {}", place.elements, place.words, said.words);
    };
    append(claims, claim_where(output, {said.id, FindingKind::symptom, true}, is_filled, words));
  }
  return claims;
}

Claims recover_padding(const Call& call, Output& output, const NamedTensors& expected) {
  if (output.left == 0) return {};
  Claims claims = claim_ends_without_padding(output, expected);
  for (const Idle& idle :
       {pad_rows(call, output, expected), rows_without_tokens(output, expected),
        unnamed_rows(call, output), empty_experts(call, output), tile_padding(call, output),
        row_padding(call, output), zero_lines(call, output)}) {
    append(claims, claim_idle(idle, output));
  }
  return claims;
}

}  // namespace mxo
