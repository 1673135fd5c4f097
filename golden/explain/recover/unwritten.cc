// Parts of an output that no one wrote.
#include <algorithm>
#include <map>

#include "golden/explain/recover/recover.h"
#include "golden/judge/elements.h"

namespace mxo {
namespace {

/// All NaNs of a type are one fill.
constexpr std::uint64_t kAnyNan = ~std::uint64_t{0};

/// Neighbours that must hold the fill before it is believed: short runs of one code are common.
Index least_run(const Output& output) {
  const Index wide = size_of(output.expected->dtype()) == 1 ? 16 : 8;
  return std::min(wide, output.columns);
}

bool is_scale(const Output& output) { return output.name.ends_with("scales"); }

/// What a run of one bit pattern is called: a constant may have been computed, too.
struct Fill {
  const char* id;
  const char* cause;
};
Fill fill_of(Dtype dtype, std::uint64_t fill) {
  if (fill == kAnyNan)
    return {"never_written.nan", "never written, or made of a NaN that was read"};
  if (fill == 0) return {"never_written.zero", "never written, cleared, or made of zeros"};
  const ElementReader read(dtype);
  if (read(fill).infinite) return {"constant.infinite", "overflow, or the fill of the buffer"};
  const Element next = read(fill + 1);
  if (next.nan || next.infinite) {
    return {"constant.largest", "the largest number, saturated, or the fill of the buffer"};
  }
  return {"constant.fill", "the fill of the buffer, never written, or one value for all of them"};
}

std::string fill_in_words(Dtype dtype, std::uint64_t fill) {
  if (fill == kAnyNan) return "NaN";
  if (fill == 0) return "zeros";
  static constexpr char kHex[] = "0123456789ABCDEF";
  std::string text = "0x";
  for (int i = static_cast<int>(size_of(dtype)) * 2 - 1; i >= 0; --i) {
    text += kHex[fill >> (4 * i) & 15];
  }
  return text;
}

/// Elements of runs, by fill.
using Runs = std::map<std::uint64_t, std::vector<Index>>;

/// Neighbours that hold one fill, as far as they have been walked.
struct Run {
  std::uint64_t fill;
  std::uint64_t wanted;  ///< where it begins
  Index length;
  Index differs;
  bool varied;  ///< not all of it is owed the same
};

/// One row or column: elements from `at`, `step` apart, given one after the other.
class Walk {
 public:
  Walk(Index at, Index step, Index least) : at_(at), step_(step), least_(least) {}
  void take(std::uint64_t fill, std::uint64_t wanted, bool differs, const Output& output,
            Runs& found) {
    if (run_.length == 0 || fill != run_.fill) {
      close(output, found);
      run_ = {fill, wanted, 0, 0, false};
    }
    ++run_.length;
    run_.differs += differs;
    run_.varied = run_.varied || wanted != run_.wanted;
  }
  void close(const Output& output, Runs& found) {
    const bool plain = run_.fill == 0 || run_.fill == kAnyNan;
    if (run_.length >= least_ && run_.differs * 2 > run_.length && (run_.varied || plain)) {
      for (Index i = 0; i < run_.length; ++i) {
        const Index e = at_ + i * step_;
        if (output.marks[static_cast<std::size_t>(e)] == Mark::differs) {
          found[run_.fill].push_back(e);
        }
      }
    }
    at_ += run_.length * step_;
  }

 private:
  Index at_;
  Index step_;
  Index least_;
  Run run_{};
};

/// Bits as fills: of types of two bytes and fewer from a table.
class Fills {
 public:
  explicit Fills(Dtype dtype) : read_(dtype), narrow_(size_of(dtype) <= 2) {
    if (!narrow_) return;
    nan_.resize(std::size_t{1} << (8 * size_of(dtype)));
    for (std::size_t bits = 0; bits < nan_.size(); ++bits) nan_[bits] = read_(bits).nan;
  }
  std::uint64_t operator()(std::uint64_t bits) const {
    const bool nan = narrow_ ? nan_[static_cast<std::size_t>(bits)] != 0 : read_(bits).nan;
    return nan ? kAnyNan : bits;
  }

 private:
  ElementReader read_;
  bool narrow_;
  std::vector<std::uint8_t> nan_;
};

/// Runs along rows into `along`, down columns into `down`; no columns if `least_down` is 0.
template <typename Word>
void walk(const Output& output, Index least_down, Runs& along, Runs& down) {
  const Fills fills(output.expected->dtype());
  const Word* came = output.actual->as<Word>();
  const Word* wanted = output.expected->as<Word>();
  std::vector<Walk> columns;
  for (Index c = 0; c < output.columns && least_down > 0; ++c) {
    columns.emplace_back(c, output.columns, least_down);
  }
  const Index least = least_run(output);
  for (Index r = 0; r < output.owed; ++r) {
    const Index first = r * output.columns;
    const bool fails = output.differs_in(first, output.columns);
    if (!fails && columns.empty()) continue;
    Walk row(first, 1, least);
    for (Index c = 0; c < output.columns; ++c) {
      const Index i = first + c;
      const std::uint64_t fill = fills(came[i]);
      const bool differs = output.marks[static_cast<std::size_t>(i)] == Mark::differs;
      if (fails) row.take(fill, wanted[i], differs, output, along);
      if (!columns.empty()) {
        columns[static_cast<std::size_t>(c)].take(fill, wanted[i], differs, output, down);
      }
    }
    row.close(output, along);
  }
  for (Walk& column : columns) column.close(output, down);
}

}  // namespace

std::vector<Claim> recover_unwritten(Output& output) {
  std::vector<Claim> claims;
  if (output.left == 0 || output.expected->elements() < 16) return claims;
  const ElementReader read(output.expected->dtype());
  Runs found;
  Runs down;
  const Index least_down = output.owed >= 16 ? std::max<Index>(16, output.owed / 4) : 0;
  switch (size_of(output.expected->dtype())) {
    case 1: walk<std::uint8_t>(output, least_down, found, down); break;
    case 2: walk<std::uint16_t>(output, least_down, found, down); break;
    case 4: walk<std::uint32_t>(output, least_down, found, down); break;
    default: walk<std::uint64_t>(output, least_down, found, down); break;
  }
  for (auto& [fill, elements] : down) {
    std::vector<Index>& all = found[fill];
    all.insert(all.end(), elements.begin(), elements.end());
    std::sort(all.begin(), all.end());
    all.erase(std::unique(all.begin(), all.end()), all.end());
  }
  std::map<std::uint64_t, std::size_t> everywhere;
  for (Index i = 0; i < output.owed * output.columns; ++i) {
    if (output.marks[static_cast<std::size_t>(i)] != Mark::differs) continue;
    const std::uint64_t bits = output.came(i);
    const std::uint64_t fill = read(bits).nan ? kAnyNan : bits;
    if (found.contains(fill)) ++everywhere[fill];
  }
  for (const auto& [fill, elements] : found) {
    // Among many scattered ones a few are neighbours by chance.
    if (elements.size() * 2 < everywhere[fill]) continue;
    const bool plain = fill == 0 || fill == kAnyNan;
    if (!plain && is_scale(output)) continue;
    // A fill that is no NaN and no zero has to stand alone: a constant may have been computed.
    if (elements.size() < 8) continue;
    const Place place = place_of(output, [&all = elements](Index i) {
      return std::binary_search(all.begin(), all.end(), i);
    });
    Claim claim;
    const Fill said = fill_of(output.expected->dtype(), fill);
    claim.id = said.id;
    claim.kind = Kind::symptom;
    claim.yields = plain;
    claim.sentence = place.words + std::string(place.hold()) +
                     fill_in_words(output.expected->dtype(), fill) + ": " + said.cause;
    claim.where = place.where;
    claim.elements = static_cast<double>(elements.size());
    for (const Index i : elements) output.settle(i);
    claims.push_back(std::move(claim));
  }
  return claims;
}

}  // namespace mxo
