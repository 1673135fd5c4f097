// A call at a shape: what the rows of data of its operator make of the dimensions.
#include "golden/suites/shapes/shaped_call.h"

#include <algorithm>
#include <charconv>
#include <numeric>
#include <set>

#include "formats/error.h"
#include "formats/nearest_name.h"
#include "golden/suites/shapes/operator_shapes.h"
#include "ops/catalogue.h"

namespace mxo {
namespace {

using enum InputKind;

std::string_view word_of(char letter) {
  return std::find_if(std::begin(kWords), std::end(kWords),
                      [letter](const Word& word) { return word.letter == letter; })
      ->name;
}

Index number(std::string_view text, std::string_view key) {
  Index value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  constexpr Index kMost = Index{1} << 31;
  if (error != std::errc{} || end != text.data() + text.size() || value < 1 || value > kMost) {
    throw Error(Fault::argument, "shape: " + std::string(key) + ": found '" + std::string(text) +
                                     "', needs a number from 1 to 2^31");
  }
  return value;
}

/// "32x1" as rows and columns; 0 for a letter, all of them.
std::pair<Index, Index> block_of(std::string_view text) {
  const std::size_t x = text.find('x');
  const auto side = [](std::string_view part) {
    Index value = 0;
    std::from_chars(part.data(), part.data() + part.size(), value);
    return value;
  };
  if (x == text.npos) return {1, 32};
  return {side(text.substr(0, x)), side(text.substr(x + 1))};
}

/// Shapes, types and numbers of one call.
class CallMaker {
 public:
  CallMaker(ShapedCall& call) : call_(call), entry_(catalogue_entry(call.op)) {}

  void make() {
    find_letters();
    set_extents();
    find_ends();
    for (const InputRow& row : kInputs) {
      if (row.op == call_.op && is_there(row.when)) add(row);
    }
    if (call_.op == "grouped_linear" && call_.set.text("only", "") == "dw") {
      call_.cut = Cut::features;
    }
    const auto cut = std::find_if(std::begin(kCuts), std::end(kCuts),
                                  [&](const CutRow& row) { return row.op == call_.op; });
    if (cut != std::end(kCuts) && call_.cut == Cut::whole) call_.cut = cut->cut;
  }

 private:
  bool grouped() const { return call_.dimensions.contains('G'); }
  bool is_there(When when) const {
    const bool coded = call_.set.has("format_x") || call_.set.has("format_w") ||
                       call_.set.has("format_dy") || call_.set.has("block_x") ||
                       call_.set.has("block_w") || call_.set.has("block_dy");
    switch (when) {
      case When::always: return true;
      case When::grouped: return grouped();
      case When::plain: return !coded;
      case When::coded: return coded;
    }
    return false;
  }

  /// Dimensions that the operator's rows name, against those that are given.
  void find_letters() {
    std::set<char> needed;
    std::set<char> may{'B'};
    bool known = false;
    for (const InputRow& row : kInputs) {
      if (row.op != call_.op) continue;
      known = true;
      for (const char c : row.axes) {
        if (c >= 'A' && c <= 'Z' && c != 'H') (c == 'B' ? may : needed).insert(c);
      }
      if (row.kind == experts || row.kind == mask) needed.insert({'X', 'S'});
      if (row.kind == group_of) needed.insert('G');
    }
    if (entry_.call_ranks != nullptr) needed.insert('P');
    for (const ExtentRow& row : kExtents) {
      if (row.op == call_.op) needed.insert(row.letter);
    }
    for (const EndsRow& row : kEnds) {
      if (row.op != call_.op) continue;
      known = true;
      if (row.needed) needed.insert({'G', row.over});
      may.insert('G');
    }
    if (!known) {
      throw Error(Fault::unsupported, call_.op +
                                          ": its operands are another operator's results, "
                                          "needs --from FILE in place of --shape");
    }
    std::string names;
    for (const char letter : needed) {
      names += (names.empty() ? "" : ", ") + std::string(word_of(letter));
    }
    for (const char letter : needed) {
      if (call_.dimensions.contains(letter)) continue;
      throw Error(Fault::argument, call_.op + ": shape: found no " + std::string(word_of(letter)) +
                                       ", needs " + names);
    }
    for (const auto& [letter, extent] : call_.dimensions) {
      if (needed.contains(letter) || may.contains(letter)) continue;
      throw Error(Fault::argument, call_.op + ": shape: found " + std::string(word_of(letter)) +
                                       ", which it does not have; needs " + names);
    }
  }

  void set_extents() {
    for (const ExtentRow& row : kExtents) {
      if (row.op == call_.op && !call_.set.has(row.key)) {
        call_.set.set(row.key, std::to_string(call_.dimensions.at(row.letter)));
      }
    }
    if (call_.dimensions.contains('S')) {
      constexpr Index kMostSlots = 64;
      const Index slots = call_.dimensions.at('S');
      const auto all = call_.dimensions.find('X');
      if (slots > kMostSlots || (all != call_.dimensions.end() && slots > all->second)) {
        throw Error(Fault::argument, call_.op + ": shape: found top_k " + std::to_string(slots) +
                                         ", needs at most 64, and no more than experts");
      }
    }
  }

  void find_ends() {
    const auto row = std::find_if(std::begin(kEnds), std::end(kEnds),
                                  [&](const EndsRow& r) { return r.op == call_.op; });
    const bool rows_to_groups = call_.op == "rows_to_groups";
    if (!grouped() || (row == std::end(kEnds) && !rows_to_groups)) return;
    const bool columns = call_.set.text("layout", "blocked") == "k_groups";
    const char over = columns ? 'K' : 'M';
    call_.ends = group_ends_by_rule(call_.options.offsets, call_.dimensions.at('G'),
                                    call_.dimensions.at(over), call_.options.seed);
    if (rows_to_groups) return;
    call_.restarts = row->restarts;
    Index most = 0;
    for (std::size_t g = 0; g < call_.ends.size(); ++g) {
      most = std::max(most, call_.ends[g] - (g == 0 ? 0 : call_.ends[g - 1]));
    }
    if (call_.op == "groups_to_masked" && !call_.set.has("max_rows")) {
      call_.set.set("max_rows", std::to_string(most));
    }
    InputRecipe recipe{"group_ends", Dtype::i32, {call_.dimensions.at('G')}, integers};
    recipe.values = call_.ends;
    call_.inputs.push_back({std::move(recipe), {{'G', 1, 1}}});
  }

  std::pair<Index, Index> block_for(const InputRow& row) const {
    const std::size_t dot = row.name.find('.');
    const std::string key =
        dot == row.name.npos ? "block" : "block_" + std::string(row.name.substr(0, dot));
    const bool wgrad = call_.op == "grouped_matmul_wgrad";
    return block_of(call_.set.text(key, wgrad ? "32x1" : "1x32"));
  }

  Dtype format_for(const InputRow& row) const {
    if (row.dtype != Dtype::u8) return row.dtype;
    if (row.kind == mask) return Dtype::u8;
    const std::size_t dot = row.name.find('.');
    const std::string side = dot == row.name.npos ? "" : "_" + std::string(row.name.substr(0, dot));
    if (row.kind == codes) return call_.set.format("format" + side, "e4m3");
    if (row.kind == scales) {
      const auto [r, c] = block_for(row);
      const std::string given(call_.set.text("scale", ""));
      if (!given.empty()) return dtype_named(given);
      return r * c == 32 || call_.op == "swizzle_scales" ? Dtype::e8m0 : Dtype::f32;
    }
    return call_.options.dtype.empty() ? Dtype::bf16 : dtype_named(call_.options.dtype);
  }

  InputAxis axis_of(std::string_view text, const InputRow& row) const {
    InputAxis axis;
    if (text.starts_with('2')) {
      axis.times = call_.set.text("halves", "") == "gate_only" ? 1 : 2;
      text.remove_prefix(1);
    }
    axis.letter = text[0];
    if (text.size() < 3) return axis;
    const auto [r, c] = block_for(row);
    axis.block = text[2] == 'r' ? r : text[2] == 'c' ? c : 128;
    return axis;
  }

  Index extent_of(const InputAxis& axis) const {
    constexpr Index kHistory = 16;
    if (axis.letter == '1') return 1;
    if (axis.letter == 'H') return kHistory;
    const Index extent = call_.dimensions.at(axis.letter) * axis.times;
    if (axis.block == 0) return 1;
    if (axis.block == 1) return extent;
    if (axis.letter != 'M' || !call_.restarts || call_.ends.empty()) {
      return ceil_div(extent, axis.block);
    }
    Index blocks = 0;
    for (std::size_t g = 0; g < call_.ends.size(); ++g) {
      blocks += ceil_div(call_.ends[g] - (g == 0 ? 0 : call_.ends[g - 1]), axis.block);
    }
    return blocks;
  }

  void add(const InputRow& row) {
    ShapedInput input;
    std::string_view rest = row.axes;
    while (!rest.empty()) {
      const std::size_t comma = std::min(rest.find(','), rest.size());
      const InputAxis axis = axis_of(rest.substr(0, comma), row);
      rest.remove_prefix(std::min(comma + 1, rest.size()));
      if (axis.letter == 'B' && !call_.dimensions.contains('B') && call_.op != "fused_dot") {
        continue;
      }
      input.axes.push_back(axis);
    }
    InputRecipe& recipe = input.recipe;
    recipe.name = row.name;
    recipe.kind = row.kind;
    recipe.distribution = call_.options.distribution;
    recipe.format = format_for(row);
    if (row.kind == experts && call_.options.routing == "hot") recipe.kind = hot_experts;
    if (row.kind == group_of) recipe.values = call_.ends;
    if (call_.dimensions.contains('X')) recipe.choices = call_.dimensions.at('X');
    if (call_.dimensions.contains('S')) recipe.slots = call_.dimensions.at('S');
    for (const InputAxis& axis : input.axes) recipe.shape.push_back(extent_of(axis));
    constexpr double kMost = 1e12;
    double elements = 1;
    for (const Index extent : recipe.shape) elements *= static_cast<double>(extent);
    if (elements > kMost) {
      throw Error(Fault::argument, call_.op + ": " + recipe.name + ": has over 10^12 elements");
    }
    // An operand that ranks share has one name, others one for each.
    const bool shared = std::any_of(entry_.inputs.begin(), entry_.inputs.end(),
                                    [&](const OperandSpec& spec) { return spec.name == row.name; });
    if (shared) {
      call_.inputs.push_back(std::move(input));
      return;
    }
    for (Index rank = 0; rank < call_.dimensions.at('P'); ++rank) {
      call_.inputs.push_back(input);
      call_.inputs.back().recipe.name = "rank" + std::to_string(rank) + "." + std::string(row.name);
    }
  }

  ShapedCall& call_;
  const CatalogueEntry& entry_;
};

}  // namespace

Dimensions parse_dimensions(std::string_view text) {
  Dimensions dimensions;
  std::vector<std::string_view> names;
  for (const Word& word : kWords) names.push_back(word.name);
  while (!text.empty()) {
    const std::size_t comma = std::min(text.find(','), text.size());
    const std::string_view part = text.substr(0, comma);
    text.remove_prefix(std::min(comma + 1, text.size()));
    const std::size_t equals = part.find('=');
    if (equals == part.npos) {
      throw Error(Fault::argument,
                  "shape: found '" + std::string(part) + "', needs rows=384,columns=7168");
    }
    const std::string_view name = part.substr(0, equals);
    const auto* word = std::find_if(std::begin(kWords), std::end(kWords),
                                    [&](const Word& known) { return known.name == name; });
    if (word == std::end(kWords)) {
      throw Error(Fault::argument, unknown_name("dimension", name, names));
    }
    if (!dimensions.emplace(word->letter, number(part.substr(equals + 1), name)).second) {
      throw Error(Fault::argument, "shape: found " + std::string(word_of(word->letter)) + " twice");
    }
  }
  return dimensions;
}

std::string to_text(const Dimensions& dimensions) {
  std::string text;
  for (const Word& word : kWords) {
    const auto at = dimensions.find(word.letter);
    if (at == dimensions.end() || word.name != word_of(word.letter)) continue;
    text += (text.empty() ? "" : ",") + std::string(word.name) + "=" + std::to_string(at->second);
  }
  return text;
}

ShapedCall shaped_call(std::string_view op, const Parameters& set, const Dimensions& dimensions,
                       const ShapeOptions& options) {
  const CatalogueEntry& entry = catalogue_entry(op);
  set.check(op, entry.parameters);
  ShapedCall call;
  call.op = op;
  call.set = set.as_listed(entry.parameters);
  call.dimensions = dimensions;
  call.options = options;
  if (options.routing != "uniform" && options.routing != "hot") {
    throw Error(Fault::argument, unknown_name("routing", options.routing, {"uniform", "hot"}));
  }
  if (!options.dtype.empty() && !is_wide_float(dtype_named(options.dtype))) {
    throw Error(Fault::argument, "dtype: found " + options.dtype + ", needs f32, bf16 or f16");
  }
  CallMaker(call).make();
  return call;
}

}  // namespace mxo
