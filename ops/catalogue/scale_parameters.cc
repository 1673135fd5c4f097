// Which row of the scale rules a call names, and the outputs that follow from it.
#include "ops/catalogue/scale_parameters.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include "formats/aliases.h"
#include "formats/nearest_name.h"
#include "ops/checked.h"

namespace mxo {
namespace {

[[noreturn]] void refuse(std::string_view op, const std::string& what) {
  throw Error(Fault::argument, std::string(op) + ": " + what);
}

/// One extent; `whole` names all of the axis.  False where it is neither.
bool read_extent(std::string_view text, char whole, Index& extent) {
  extent = kWhole;
  if (text.size() == 1 && (text[0] == whole || text[0] == whole + 32)) return true;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), extent);
  return error == std::errc{} && end == text.data() + text.size() && extent > 0;
}

ScaleType type_of(Dtype scale) { return scale == Dtype::e8m0 ? ScaleType::e8m0 : ScaleType::f32; }
Dtype dtype_of(ScaleType type) { return type == ScaleType::e8m0 ? Dtype::e8m0 : Dtype::f32; }

/// True if a list of a row has this one, or is empty.
bool lists(std::string_view list, std::string_view name) {
  while (!list.empty()) {
    const std::size_t bar = list.find('|');
    if (list.substr(0, bar) == name) return true;
    if (bar == std::string_view::npos) return false;
    list.remove_prefix(bar + 1);
  }
  return true;
}
bool has_block(std::string_view blocks, const BlockExtents& block) {
  return lists(blocks, name_of(block));
}

/// True if a row of that name is `scale`d and has `block`.
const ScaleRuleRow* find_rule(std::string_view name, Dtype scale, const BlockExtents& block) {
  for (const ScaleRuleRow& row : kScaleRules) {
    const bool fits = row.name == name && row.scale == type_of(scale);
    if (fits && (row.blocks.empty() || has_block(row.blocks, block))) return &row;
  }
  return nullptr;
}

bool same_letters(std::string_view a, std::string_view b) {
  const auto lower = [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; };
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [&](char x, char y) { return lower(x) == lower(y); });
}

/// The name of a rule as rows have it, or `text`.
std::string_view canonical(std::string_view text) {
  for (const ScaleRuleRow& row : kScaleRules) {
    if (same_letters(row.name, text)) return row.name;
  }
  const std::string_view here = canonical_name(Word::rule, text);
  return here.empty() ? text : here;
}

std::vector<std::string_view> unique_names() {
  std::vector<std::string_view> names;
  for (const ScaleRuleRow& row : kScaleRules) {
    if (std::find(names.begin(), names.end(), row.name) == names.end()) names.push_back(row.name);
  }
  return names;
}

bool known(std::string_view name) {
  return std::any_of(std::begin(kScaleRules), std::end(kScaleRules),
                     [&](const ScaleRuleRow& row) { return row.name == name; });
}

/// What rows of that name have, for a message.
std::string choices_of(std::string_view name) {
  std::string text;
  for (const ScaleRuleRow& row : kScaleRules) {
    if (row.name != name) continue;
    text += text.empty() ? "" : ", or ";
    text += row.scale == ScaleType::e8m0 ? "e8m0 scales" : "f32 scales";
    text += row.blocks.empty() ? " of any block" : " of " + std::string(row.blocks);
  }
  return text;
}

BlockExtents default_block(std::string_view op, std::string_view rule, std::string_view scale) {
  const BlockExtents first;
  for (const ScaleRuleRow& row : kScaleRules) {
    const bool type_fits =
        scale.empty() || scale == (row.scale == ScaleType::e8m0 ? "e8m0" : "f32");
    if (row.name != rule || !type_fits) continue;
    if (row.blocks.empty()) return first;
    return block_named(op, row.blocks.substr(0, row.blocks.find('|')));
  }
  return first;
}

/// "rule=vllm"
std::string rule_of(const ScaleRuleRow& row) { return "rule=" + std::string(row.name); }

/// The rule's own kind of rounding where `name` is a direction that it has.
PowerOfTwo power_named(std::string_view op, std::string_view name, const ScaleRuleRow& row) {
  const bool known = name == "none" || name == "down" || name == "up";
  if (known && !lists(row.powers, name)) {
    refuse(op, rule_of(row) + ": power_of_2: found " + std::string(name) + ", needs one of " +
                   std::string(row.powers));
  }
  if (name == "none") return PowerOfTwo::none;
  if (name == "down") return row.down;
  if (name == "up") return row.up;
  refuse(op, rule_of(row) + ": power_of_2: found " + std::string(name) + ", needs one of " +
                 std::string(row.powers));
}

void set_constants(std::string_view op, const Parameters& set, const ScaleRuleRow& row,
                   ScaleRule& rule) {
  const bool mx = row.scale == ScaleType::e8m0;
  for (const char* key : {"power_of_2", "epsilon", "scale_max"}) {
    if (mx && set.has(key)) refuse(op, std::string(key) + ": found e8m0 scales, needs scale=f32");
  }
  if (!mx && set.has("scale_mode")) {
    refuse(op, "scale_mode: found f32 scales, needs scale=e8m0");
  }
  if (set.has("scale_mode") && row.rule.e8m0.exponent != ExponentRule::by_mode) {
    refuse(op, rule_of(row) + ": scale_mode: found with a rule that has its own exponent");
  }
  const std::string_view format = set.text("format", "e4m3");
  if (!lists(row.formats, format)) {
    refuse(op, rule_of(row) + ": format: found " + std::string(format) + ", needs one of " +
                   std::string(row.formats));
  }
  rule.mode = scale_mode_of(set, row.rule.mode);
  if (set.has("power_of_2")) rule.f32.power_of_2 = power_named(op, set.text("power_of_2", ""), row);
  rule.f32.epsilon = set.real("epsilon", rule.f32.epsilon);
  rule.f32.amax_max = set.real("scale_max", rule.f32.amax_max);
}

}  // namespace

/// "(1, 128)" and "[1,128]" as "1x128".
std::string as_product(std::string_view text) {
  std::string plain;
  for (const char c : text) {
    if (std::string_view("()[] ").find(c) == std::string_view::npos) plain += c == ',' ? 'x' : c;
  }
  return plain;
}

BlockExtents block_named(std::string_view op, std::string_view typed, std::string_view key) {
  const std::string text = as_product(typed);
  const std::string_view here = canonical_name(Word::block, text);
  if (!here.empty()) return block_named(op, here, key);
  const std::size_t by = text.find('x');
  BlockExtents block;
  if (by != std::string::npos &&
      read_extent(std::string_view(text).substr(0, by), 'R', block.rows) &&
      read_extent(std::string_view(text).substr(by + 1), 'K', block.columns)) {
    return block;
  }
  const std::string said = std::string(key) + "=" + std::string(typed);
  const std::string advice = advice_on(Word::block, typed);
  if (!advice.empty()) refuse(op, said + ": needs rows x columns: " + advice);
  refuse(op, said +
                 ": needs rows x columns, as 1x32 or 128x128; 1xK a row (per_token), Rx1 a column, "
                 "RxK all (per_tensor)");
}

std::string_view rule_named(std::string_view op, std::string_view typed) {
  const std::string_view name = canonical(typed);
  if (known(name)) return name;
  const std::string advice = advice_on(Word::rule, typed);
  if (!advice.empty()) refuse(op, "rule: found " + std::string(typed) + ", " + advice);
  throw Error(Fault::argument, with_nearest(std::string(op) + ": rule: found " + std::string(name),
                                            name, unique_names(), "needs one of"));
}

const ScaleRuleRow& scale_rule(std::string_view op, std::string_view typed, Dtype scale,
                               const BlockExtents& block) {
  const std::string_view name = rule_named(op, typed);
  const ScaleRuleRow* row = find_rule(name, scale, block);
  if (row != nullptr) return *row;
  refuse(op, "rule=" + std::string(name) + ": found " + std::string(name_of(scale)) +
                 " scales of block " + name_of(block) + ", needs " + choices_of(name));
}

ScaleChoice scale_choice(std::string_view op, const Parameters& set) {
  const std::string_view name = canonical(set.text("rule", "torchao"));
  std::string_view type = set.text("scale", "");
  if (const std::string_view here = canonical_name(Word::format, type); !here.empty()) type = here;
  if (!type.empty() && type != "e8m0" && type != "f32") {
    refuse(op, "scale=" + std::string(type) + ": needs one of e8m0|f32");
  }
  ScaleChoice choice;
  choice.block =
      set.has("block") ? block_named(op, set.text("block", "")) : default_block(op, name, type);
  const bool mx = choice.block.rows * choice.block.columns == kMxBlock;
  choice.scale = dtype_of(mx ? ScaleType::e8m0 : ScaleType::f32);
  if (!type.empty()) {
    choice.scale = type == "e8m0" ? Dtype::e8m0 : Dtype::f32;
  } else if (known(name) && find_rule(name, choice.scale, choice.block) == nullptr) {
    const Dtype other = mx ? Dtype::f32 : Dtype::e8m0;
    if (find_rule(name, other, choice.block) != nullptr) choice.scale = other;
  }
  const ScaleRuleRow& row = scale_rule(op, name, choice.scale, choice.block);
  choice.rule = row.rule;
  set_constants(op, set, row, choice.rule);
  return choice;
}

ScaleMode scale_mode_of(const Parameters& set, ScaleMode fallback) {
  if (!set.has("scale_mode")) return fallback;
  const std::string_view name = set.text("scale_mode", "rceil");
  if (name == "floor") return ScaleMode::floor;
  if (name == "ceil") return ScaleMode::ceil;
  return name == "even" ? ScaleMode::even : ScaleMode::rceil;
}

Rounding rounding_of(std::string_view op, const Parameters& set, Rounding fallback) {
  if (!set.has("rounding")) return fallback;
  const std::string_view name = set.text("rounding", "");
  std::vector<std::string_view> names;
  for (const char* one : kRoundingNames) {
    if (same_letters(name, one)) return static_cast<Rounding>(names.size());
    names.emplace_back(one);
  }
  throw Error(Fault::argument,
              with_nearest(std::string(op) + ": rounding: found " + std::string(name), name, names,
                           "needs one of"));
}

Overflow overflow_of(std::string_view op, const Parameters& set, Overflow fallback) {
  if (!set.has("overflow")) return fallback;
  const std::string_view name = set.text("overflow", "");
  if (same_letters(name, "saturate")) return Overflow::saturate;
  if (same_letters(name, "nonfinite")) return Overflow::nonfinite;
  throw Error(Fault::argument,
              with_nearest(std::string(op) + ": overflow: found " + std::string(name), name,
                           {"saturate", "nonfinite"}, "needs one of"));
}

Index row_blocks_of(const Operand& ends, Index height, Index rows) {
  if (height == kWhole) return ends.elements();
  const bool wide = ends.dtype == Dtype::i64;
  if (ends.rank != 1 || (!wide && ends.dtype != Dtype::i32)) return 0;
  Index blocks = 0;
  Index start = 0;
  for (Index g = 0; g < ends.elements(); ++g) {
    const Index end =
        wide ? ends.as<const std::int64_t, 1>()(g) : ends.as<const std::int32_t, 1>()(g);
    if (end < start || end > rows) return 0;
    blocks += ceil_div(end - start, height);
    start = end;
  }
  return blocks;
}

ScaledResult scaled_outputs(std::string_view op, Staging& stage, const Parameters& set,
                            const std::vector<Index>& shape, const ScaleChoice& choice) {
  const Check check(op);
  check.that(shape.size() >= 2 && shape.size() <= kMaxRank,
             "x: found rank " + std::to_string(shape.size()) + ", needs rank 2 to " +
                 std::to_string(kMaxRank));
  const Index k = shape.back();
  const Index r = shape[shape.size() - 2];
  const bool grouped = stage.has("group_ends");
  if (choice.scale == Dtype::e8m0) {
    if (choice.block.columns != kWhole) check.multiple("x", "K", k, choice.block.columns);
    if (choice.block.rows > 1 && !grouped) check.multiple("x", "R", r, choice.block.rows);
  }
  ScaledResult to;
  to.block = choice.block;
  const bool blocked = set.text("scale_layout", "row_major") == "blocked";
  if (blocked) to.storage = ScaleStorage::blocked;
  if (blocked && (choice.block.rows != 1 || choice.scale != Dtype::e8m0)) {
    refuse(op,
           "scale_layout: blocked needs e8m0 scales of blocks of one row; 32x1 with transpose=true "
           "has them");
  }
  std::vector<Index> scales = shape_of_scales(shape, choice.block, to.storage);
  if (grouped && shape.size() == 2) {
    scales = shape_of_scales(shape, choice.block,
                             row_blocks_of(stage.on_host("group_ends"), choice.block.rows, r));
  }
  const bool turns = set.flag("transpose", false);
  if (turns && choice.block.rows == 1) {
    refuse(op,
           "transpose: needs blocks of more than one row, found block " + name_of(choice.block));
  }
  const auto turned = [turns](std::vector<Index> extents) {
    if (turns) std::swap(extents[extents.size() - 1], extents[extents.size() - 2]);
    return extents;
  };
  to.codes = stage.output("codes", set.format("format", "e4m3"), turned(shape));
  to.scales = stage.output("scales", choice.scale, turned(scales));
  if (!turns) return to;
  to.codes = transposed(to.codes);
  to.scales = transposed(to.scales);
  return to;
}

std::string_view rule_names() {
  static const std::string all = [] {
    std::string text;
    for (const std::string_view name : unique_names()) {
      text += text.empty() ? "" : "|";
      text += name;
    }
    return text;
  }();
  return all;
}

}  // namespace mxo
