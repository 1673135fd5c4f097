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

/// The dimensions that an extent follows from.
std::string_view derived_from(const char& letter) {
  switch (letter) {
    case 'H': return "";
    case 'L': return "MS";
    case 'Q': return "MG";
    case 'V': return "MSXP";
    case 'W': return "PG";
    case 'Y': return "MSX";
    case 'Z': return "MK";
    default: return {&letter, 1};
  }
}

const OperatorShape& shape_of(const std::string& op) {
  static const std::vector<OperatorShape> all = [] {
    std::vector<OperatorShape> rows;
    for (const auto& family :
         {elementwise_shapes(), scale_shapes(), product_shapes(), movement_shapes()}) {
      rows.insert(rows.end(), family.begin(), family.end());
    }
    return rows;
  }();
  const auto at = std::find_if(all.begin(), all.end(),
                               [&op](const OperatorShape& row) { return row.op == op; });
  if (at != all.end()) return *at;
  throw Error(Fault::unsupported, op + ": its operands are another operator's results, needs "
                                       "--from FILE in place of --shape");
}

/// Shapes, types and numbers of one call.
class CallMaker {
 public:
  explicit CallMaker(ShapedCall& call)
      : call_(call), entry_(catalogue_entry(call.op)), shape_(shape_of(call.op)) {}

  void make() {
    check_dimensions();
    find_ends();
    set_extents();
    for (const InputRow& row : shape_.inputs) {
      if (is_there(row.when)) add(row);
    }
    const bool gradient = call_.op == "grouped_linear" && call_.set.text("only", "") == "dw";
    call_.cut = gradient ? Cut::features : shape_.cut;
  }

 private:
  bool grouped() const { return call_.dimensions.contains('G'); }
  bool is_there(When when) const {
    const bool coded = call_.set.has("format_x") || call_.set.has("format_w") ||
                       call_.set.has("format_dy") || call_.set.has("block_x") ||
                       call_.set.has("block_w") || call_.set.has("block_dy");
    switch (when) {
      case When::always: return true;
      case When::plain: return !coded;
      case When::coded: return coded;
    }
    return false;
  }

  /// Dimensions that the operator's rows name, against those that are given.
  void check_dimensions() const {
    std::set<char> needed;
    std::set<char> may;
    const auto need = [&needed](const char& letter) {
      const std::string_view from = derived_from(letter);
      needed.insert(from.begin(), from.end());
    };
    for (const InputRow& row : shape_.inputs) {
      for (const char& c : row.axes) {
        if (c == 'B') may.insert(c);
        if (c >= 'A' && c <= 'Z' && c != 'B') need(c);
      }
      if (row.kind == experts || row.kind == mask) needed.insert({'X', 'S'});
      if (row.kind == group_of && row.axes == "M") needed.insert('G');
      if (row.fill == Fill::counts) needed.insert('M');
    }
    if (entry_.call_ranks != nullptr) needed.insert('P');
    for (const ExtentRow& row : shape_.extents) need(row.letter);
    if (shape_.ends == Ends::needed || shape_.ends == Ends::needed_restart) {
      needed.insert({'G', 'M'});
    }
    if (shape_.ends != Ends::none) may.insert('G');
    std::string names;
    for (const char letter : needed) {
      names += (names.empty() ? "" : ", ") + std::string(name_of_dimension(letter));
    }
    for (const char letter : needed) {
      if (call_.dimensions.contains(letter)) continue;
      throw Error(Fault::argument, call_.op + ": shape: found no " +
                                       std::string(name_of_dimension(letter)) + ", needs " + names);
    }
    for (const auto& [letter, extent] : call_.dimensions) {
      if (needed.contains(letter) || may.contains(letter)) continue;
      throw Error(Fault::argument, call_.op + ": shape: found " +
                                       std::string(name_of_dimension(letter)) +
                                       ", which it does not have; needs " + names);
    }
    const auto slots = call_.dimensions.find('S');
    const auto all = call_.dimensions.find('X');
    constexpr Index kMostSlots = 64;
    if (slots == call_.dimensions.end()) return;
    if (slots->second > kMostSlots ||
        (all != call_.dimensions.end() && slots->second > all->second)) {
      throw Error(Fault::argument, call_.op + ": shape: found top_k " +
                                       std::to_string(slots->second) +
                                       ", needs at most 64, and no more than experts");
    }
  }

  void set_extents() {
    for (const ExtentRow& row : shape_.extents) {
      if (call_.set.has(row.key)) continue;
      call_.set.set(row.key, std::to_string(extent_of({row.letter, 1, 1})));
    }
  }

  void find_ends() {
    const bool takes = shape_.ends != Ends::none;
    const bool says_groups =
        std::any_of(shape_.inputs.begin(), shape_.inputs.end(),
                    [](const InputRow& r) { return r.kind == group_of && r.axes == "M"; });
    if (!grouped() || (!takes && !says_groups)) return;
    const bool columns = call_.set.text("layout", "blocked") == "k_groups";
    call_.ends = group_ends_by_rule(call_.options.offsets, call_.dimensions.at('G'),
                                    call_.dimensions.at(columns ? 'K' : 'M'), call_.options.seed);
    if (!takes) return;
    call_.restarts = shape_.ends == Ends::optional_restart || shape_.ends == Ends::needed_restart;
    Index most = 0;
    for (std::size_t g = 0; g < call_.ends.size(); ++g) most = std::max(most, rows_of_group(g));
    if (call_.op == "groups_to_masked" && !call_.set.has("max_rows")) {
      call_.set.set("max_rows", std::to_string(most));
    }
    InputRecipe recipe{"group_ends", Dtype::i32, {call_.dimensions.at('G')}, integers};
    recipe.values = call_.ends;
    call_.inputs.push_back({std::move(recipe), {{'G', 1, 1}}});
  }

  Index rows_of_group(std::size_t g) const {
    return call_.ends[g] - (g == 0 ? 0 : call_.ends[g - 1]);
  }

  Index alignment() const { return std::max<Index>(1, call_.set.integer("alignment", 32)); }

  std::vector<Index> filled(const InputRow& row, Index count) const {
    std::vector<Index> values;
    const std::uint32_t stream = inputs::stream_of(row.name);
    const Index rows = call_.dimensions.at('M');
    if (row.fill == Fill::slots) return {extent_of({'L', 1, 1})};
    Index start = 0;
    for (Index i = 0; i < count; ++i) {
      if (row.fill == Fill::padded_starts) {
        values.push_back(start);
        start += ceil_div(rows_of_group(static_cast<std::size_t>(i)), alignment()) * alignment();
      } else {
        // Of ranks and experts together as many as there are rows.
        const Index most = call_.dimensions.contains('P') ? rows / count : rows;
        const PhiloxWords words = philox(static_cast<std::uint64_t>(i), stream, call_.options.seed);
        values.push_back(static_cast<Index>(words.word[0]) % (most + 1));
      }
    }
    return values;
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
      return r * c == 32 ? Dtype::e8m0 : Dtype::f32;
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
    constexpr Index kTileRows = 128;
    constexpr Index kTileColumns = 4;
    const auto of = [this](char letter) { return call_.dimensions.at(letter); };
    switch (axis.letter) {
      case '1': return 1;
      case 'H': return kHistory;
      case 'Q': return ceil_div(of('M') + of('G') * alignment(), alignment()) * alignment();
      case 'W': return of('P') * of('G');
      case 'Z':
        return ceil_div(of('M'), kTileRows) * kTileRows * ceil_div(of('K'), kTileColumns) *
               kTileColumns;
      case 'L': return of('M') * of('S');
      case 'Y': return ceil_div(of('M') * of('S'), call_.set.integer("block", 64));
      case 'V': return 0;  // of each rank its own
      case 'B': return call_.dimensions.contains('B') ? of('B') : 1;
      default: break;
    }
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
    if (row.kind == group_of) {
      recipe.values = row.axes == "M" ? call_.ends
                                      : group_ends_by_rule("even", call_.dimensions.at('X'),
                                                           extent_of(input.axes[0]), 0);
    }
    if (row.fill != Fill::none) recipe.values = filled(row, extent_of(input.axes[0]));
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
      InputRecipe& own = call_.inputs.emplace_back(input).recipe;
      own.name = "rank" + std::to_string(rank) + "." + std::string(row.name);
      if (input.axes[0].letter == 'V') own.shape[0] = received_rows(rank);
    }
  }

  /// Rows of what a rank receives (ExpertPlan::rows).
  Index received_rows(Index rank) {
    const Index all = call_.dimensions.at('X');
    const Index ranks = call_.dimensions.at('P');
    if (counts_.empty()) {
      counts_.resize(static_cast<std::size_t>(all));
      for (Index from = 0; from < ranks; ++from) {
        InputRecipe recipe{"rank" + std::to_string(from) + ".experts",
                           Dtype::i32,
                           {call_.dimensions.at('M'), call_.dimensions.at('S')},
                           call_.options.routing == "hot" ? hot_experts : experts};
        recipe.choices = all;
        const Tensor chosen =
            make_input(recipe, call_.options.seed, whole_box(recipe.shape), recipe.shape);
        for (Index i = 0; i < chosen.elements(); ++i) {
          ++counts_[static_cast<std::size_t>(chosen.as<std::int32_t>()[i])];
        }
      }
    }
    const Index local = all / ranks;
    Index rows = call_.set.text("rows", "") == "worst_case"
                     ? extent_of({'L', 1, 1}) * ranks
                     : std::accumulate(counts_.begin() + rank * local,
                                       counts_.begin() + (rank + 1) * local, Index{0});
    if (call_.set.text("layout", "") != "expert_major_padded") return rows;
    return ceil_div(rows + local * alignment(), alignment()) * alignment();
  }

  ShapedCall& call_;
  std::vector<Index> counts_;  // of slots, by expert
  const CatalogueEntry& entry_;
  const OperatorShape& shape_;
};

}  // namespace

ShapedCall shaped_call(std::string_view op, const Parameters& set, const Dimensions& dimensions,
                       const ShapeOptions& options) {
  const CatalogueEntry& entry = catalogue_entry(op);
  set.check(op, entry.parameters);
  ShapedCall call;
  call.op = op;
  call.set = set.as_listed(entry.parameters);
  call.dimensions = dimensions;
  call.options = options;
  check_offsets(options.offsets);
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
