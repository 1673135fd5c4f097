// Shapes as the catalogue spells them, and what of a tensor stays when an axis is cut.
#include "golden/suites/case_axes.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <optional>

#include "formats/error.h"
#include "golden/judge/group_rows.h"

namespace mxo {
namespace {

constexpr std::string_view kEnds = "group_ends";
constexpr Index kLongestBlock = 128;

/// "[E, N, K/32]" as its parts, from the right; empty for a shape in another notation.
std::vector<std::string> parts_of(std::string_view shape) {
  std::vector<std::string> parts;
  if (!shape.starts_with("[")) return parts;
  std::string_view rest = shape.substr(1, shape.find(']') - 1);
  while (!rest.empty()) {
    const std::size_t comma = std::min(rest.find(','), rest.size());
    std::string_view part = rest.substr(0, comma);
    while (part.starts_with(' ')) part.remove_prefix(1);
    parts.emplace_back(part);
    rest.remove_prefix(std::min(comma + 1, rest.size()));
  }
  if (!parts.empty() && parts.front() == "..") parts.erase(parts.begin());
  return parts;
}

bool is_capital(char c) { return c >= 'A' && c <= 'Z'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }

/// What is left of "K", "2F", "K/32" or "ceil(R/r)" before the block; nothing for other words.
struct Part {
  std::string letter;
  Index runs = 1;
  bool blocks = false;
};
std::optional<Part> part_of(std::string_view text) {
  Part part;
  constexpr std::string_view ceil = "ceil(";
  if (text.starts_with(ceil)) text = text.substr(ceil.size(), text.size() - ceil.size() - 1);
  if (!text.empty() && is_digit(text[0])) {
    part.runs = text[0] - '0';
    text.remove_prefix(1);
  }
  if (text.empty() || !is_capital(text[0])) return std::nullopt;
  part.letter = text.substr(0, 1);
  text.remove_prefix(1);
  part.blocks = text.starts_with('/');
  if (!text.empty() && !part.blocks) return std::nullopt;
  return part;
}

/// The block that makes `count` of `extent`: 1, 32, 128 or all.  Nothing if none does.
std::optional<Index> block_of(Index extent, Index count) {
  for (const Index block : {Index{1}, Index{32}, kLongestBlock, extent}) {
    if (block > 0 && ceil_div(extent, block) == count) return block;
  }
  return std::nullopt;
}

std::vector<Index> all_of(Index count) {
  std::vector<Index> all(static_cast<std::size_t>(count));
  std::iota(all.begin(), all.end(), Index{0});
  return all;
}

std::vector<Index> strides_of(const std::vector<Index>& shape) {
  std::vector<Index> strides(shape.size(), 1);
  for (std::size_t d = shape.size(); d-- > 1;) strides[d - 1] = strides[d] * shape[d];
  return strides;
}

}  // namespace

CaseAxes::CaseAxes(std::string_view op, const Parameters& set, const NamedTensors& inputs,
                   const NamedTensors& outputs) {
  const CatalogueEntry& entry = catalogue_entry(op);
  if (entry.call_ranks != nullptr) {
    throw Error(Fault::unsupported, std::string(op) + ": runs on ranks, and cannot be reduced");
  }
  std::vector<std::pair<Spelled, const Tensor*>> plain;
  std::vector<std::pair<Spelled, const Tensor*>> blocked;
  std::vector<Spelled> unread;
  const auto spell = [&](TensorRole side, const OperandSpec& spec, const Tensor& tensor,
                         bool turned) {
    std::vector<std::string> parts = parts_of(spec.shape);
    if (turned && parts.size() >= 2) std::swap(parts[parts.size() - 1], parts[parts.size() - 2]);
    Spelled spelled{{side, std::string(spec.name)}, {}};
    bool blocks = false;
    bool whole = parts.size() == static_cast<std::size_t>(tensor.rank());
    for (const std::string& text : parts) {
      const auto part = part_of(text);
      whole = whole && part.has_value();
      if (part) {
        spelled.dimensions.push_back({part->letter, part->runs, 0});
        blocks = blocks || part->blocks;
      }
    }
    if (!whole) {
      unread.push_back(std::move(spelled));
    } else {
      (blocks ? blocked : plain).emplace_back(std::move(spelled), &tensor);
    }
  };
  for (const OperandSpec& spec : entry.inputs) {
    const auto at = inputs.find(spec.name);
    if (at != inputs.end()) spell(TensorRole::input, spec, at->second, false);
  }
  for (const OperandSpec& spec : entry.outputs) {
    const auto at = outputs.find(spec.name);
    if (at != outputs.end())
      spell(TensorRole::output, spec, at->second, set.flag("transpose", false));
  }
  // Extents come from the tensors that have them whole.
  for (const auto* list : {&plain, &blocked}) {
    for (const auto& [spelled, tensor] : *list) {
      if (!measure(spelled, *tensor)) unread.push_back(spelled);
    }
  }
  find_groups(inputs);
  freeze(unread);
}

/// group_ends sort what as many rows as the last of them can be: R, T or M.
void CaseAxes::find_groups(const NamedTensors& inputs) {
  const auto ends = inputs.find(kEnds);
  if (ends == inputs.end()) return;
  ends_ = group_ends_of(ends->second);
  for (const std::string letter : {"R", "T", "M"}) {
    const auto at = axes_.find(letter);
    if (at == axes_.end() || (!ends_.empty() && ends_.back() > at->second.extent)) continue;
    row_letter_ = letter;
    group_letter_ = "E";
    return;
  }
  std::erase(letters_, "E");  // unknown ends of rows stay as they are
}

/// Takes the extents of a tensor, or learns its blocks; false if they do not fit.
bool CaseAxes::measure(const Spelled& spelled, const Tensor& tensor) {
  std::vector<Dimension> dimensions = spelled.dimensions;
  for (std::size_t d = 0; d < dimensions.size(); ++d) {
    Dimension& dimension = dimensions[d];
    const Index extent = tensor.extent(static_cast<int>(d));
    if (extent % dimension.runs != 0) return false;
    const auto [at, added] = axes_.try_emplace(dimension.letter, Axis{extent / dimension.runs, 1});
    const auto block = block_of(at->second.extent, extent / dimension.runs);
    if (!block) return false;
    dimension.block = *block;
    if (added) letters_.push_back(dimension.letter);
  }
  for (const Dimension& dimension : dimensions) {
    Axis& axis = axes_.find(dimension.letter)->second;
    // One block of a usual size stays one; a longer one is the whole axis, of any length.
    if (dimension.block <= kLongestBlock) axis.unit = std::max(axis.unit, dimension.block);
  }
  tensors_.emplace(spelled.name, std::move(dimensions));
  return true;
}

/// An operand that cannot be cut keeps its axes whole, all of them if it is unknown which.
void CaseAxes::freeze(const std::vector<Spelled>& unread) {
  for (const Spelled& spelled : unread) {
    if (spelled.name == Name{TensorRole::input, std::string(kEnds)}) continue;
    // Scale tiles that start again at each group hold rows and groups together.
    const auto goes = [&](const std::string& letter) {
      const bool named =
          std::any_of(spelled.dimensions.begin(), spelled.dimensions.end(),
                      [&](const Dimension& dimension) { return dimension.letter == letter; });
      return named || letter == row_letter_ || letter == group_letter_;
    };
    std::erase_if(letters_, goes);
  }
}

Index CaseAxes::units(std::string_view letter) const {
  return ceil_div(axis(letter).extent, axis(letter).unit);
}

Index CaseAxes::group_of(Index unit) const {
  const Index row = unit * axis(row_letter_).unit;
  const auto at = std::upper_bound(ends_.begin(), ends_.end(), row);
  return at == ends_.end() ? -1 : at - ends_.begin();
}

KeptUnits CaseAxes::units_of(const std::string& output, const Tensor& tensor, Index i) const {
  KeptUnits units;
  const std::vector<Index> strides = strides_of(tensor.shape());
  const std::vector<Dimension>& dimensions = tensors_.find({TensorRole::output, output})->second;
  for (std::size_t d = 0; d < dimensions.size(); ++d) {
    const Dimension& dimension = dimensions[d];
    const Axis& whole = axis(dimension.letter);
    const Index position = i / strides[d] % tensor.extent(static_cast<int>(d));
    const Index in_run = position % (tensor.extent(static_cast<int>(d)) / dimension.runs);
    if (std::find(letters_.begin(), letters_.end(), dimension.letter) == letters_.end()) continue;
    if (dimension.block >= whole.extent && whole.extent > 1) continue;  // one for the whole axis
    units[dimension.letter] = {in_run * dimension.block / whole.unit};
  }
  return units;
}

/// Rows whose group and unit stay.
std::vector<bool> CaseAxes::kept_rows(const KeptUnits& kept) const {
  const Axis& rows = axis(row_letter_);
  std::vector<bool> stay(static_cast<std::size_t>(rows.extent), true);
  const auto at = kept.find(row_letter_);
  if (at == kept.end()) return stay;
  std::fill(stay.begin(), stay.end(), false);
  for (const Index unit : at->second) {
    const Index end = std::min(rows.extent, (unit + 1) * rows.unit);
    for (Index r = unit * rows.unit; r < end; ++r) stay[static_cast<std::size_t>(r)] = true;
  }
  return stay;
}

void CaseAxes::resolve(KeptUnits& kept) const {
  if (row_letter_.empty() || axes_.find(row_letter_) == axes_.end()) return;
  const auto cuttable = [&](const std::string& letter) {
    return std::find(letters_.begin(), letters_.end(), letter) != letters_.end();
  };
  if (!cuttable(row_letter_)) {
    kept.erase(group_letter_);
    return;
  }
  const auto groups = kept.find(group_letter_);
  const auto rows = kept.find(row_letter_);
  if (groups != kept.end()) {
    const std::vector<Index> all = rows == kept.end() ? all_of(units(row_letter_)) : rows->second;
    std::vector<Index> stay;
    for (const Index unit : all) {
      const Index group = group_of(unit);
      if (std::binary_search(groups->second.begin(), groups->second.end(), group)) {
        stay.push_back(unit);
      }
    }
    kept.insert_or_assign(row_letter_, std::move(stay));
  } else if (rows != kept.end() && cuttable(group_letter_)) {
    std::vector<Index> stay;
    for (const Index unit : rows->second) {
      const Index group = group_of(unit);
      if (group >= 0 && (stay.empty() || stay.back() != group)) stay.push_back(group);
    }
    if (!stay.empty()) kept.insert_or_assign(group_letter_, std::move(stay));
  }
}

std::vector<Index> CaseAxes::positions(const Dimension& dimension, Index extent,
                                       const KeptUnits& kept) const {
  const auto at = kept.find(dimension.letter);
  const Axis& whole = axis(dimension.letter);
  const bool one_for_all = dimension.block >= whole.extent && whole.extent > 1;
  if (at == kept.end() || one_for_all) return all_of(extent);
  const Index run = extent / dimension.runs;
  std::vector<Index> stay;
  for (Index r = 0; r < dimension.runs; ++r) {
    for (const Index unit : at->second) {
      const Index end = ceil_div(std::min(whole.extent, (unit + 1) * whole.unit), dimension.block);
      for (Index i = unit * whole.unit / dimension.block; i < end; ++i) stay.push_back(r * run + i);
    }
  }
  return stay;
}

/// Ends of the groups that stay, counting the rows that stay.
Tensor CaseAxes::cut_ends(const Tensor& tensor, const KeptUnits& kept) const {
  const std::vector<bool> stay = kept_rows(kept);
  const auto at = kept.find(group_letter_);
  const std::vector<Index> groups =
      at == kept.end() ? all_of(static_cast<Index>(ends_.size())) : at->second;
  Tensor cut(tensor.dtype(), {static_cast<Index>(groups.size())});
  Index rows = 0;
  for (std::size_t g = 0; g < groups.size(); ++g) {
    const auto group = static_cast<std::size_t>(groups[g]);
    const auto first = stay.begin() + (group == 0 ? 0 : ends_[group - 1]);
    rows += std::count(first, stay.begin() + ends_[group], true);
    if (tensor.dtype() == Dtype::i64) {
      cut.as<std::int64_t>()[g] = rows;
    } else {
      cut.as<std::int32_t>()[g] = static_cast<std::int32_t>(rows);
    }
  }
  return cut;
}

Tensor CaseAxes::cut(TensorRole side, const std::string& name, const Tensor& tensor,
                     const KeptUnits& kept) const {
  if (side == TensorRole::input && name == kEnds) {
    return row_letter_.empty() ? tensor : cut_ends(tensor, kept);
  }
  const auto at = tensors_.find({side, name});
  if (at == tensors_.end()) return tensor;
  std::vector<std::vector<Index>> stay;
  std::vector<Index> shape;
  for (std::size_t d = 0; d < at->second.size(); ++d) {
    stay.push_back(positions(at->second[d], tensor.extent(static_cast<int>(d)), kept));
    shape.push_back(static_cast<Index>(stay.back().size()));
  }
  Tensor out(tensor.dtype(), shape);
  const std::vector<Index> from = strides_of(tensor.shape());
  const std::vector<Index> to = strides_of(shape);
  const std::size_t size = size_of(tensor.dtype());
  for (Index i = 0; i < out.elements(); ++i) {
    Index source = 0;
    for (std::size_t d = 0; d < stay.size(); ++d) {
      source += stay[d][static_cast<std::size_t>(i / to[d] % shape[d])] * from[d];
    }
    std::memcpy(out.data() + static_cast<std::size_t>(i) * size,
                tensor.data() + static_cast<std::size_t>(source) * size, size);
  }
  return out;
}

}  // namespace mxo
