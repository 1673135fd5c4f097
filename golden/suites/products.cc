// Cases of the grouped products: groups at their edges, sums that are hard to add up.
#include "golden/suites/case_list.h"
#include "golden/suites/families.h"
#include "golden/suites/product_operands.h"

namespace mxo {
namespace {

struct GroupCase {
  std::string_view name;
  ProductShape shape;
  std::vector<std::string> flags;
  int level;
};

/// Ends are multiples of 32 in those that MX weight gradients can take.
std::vector<GroupCase> group_cases() {
  std::vector<GroupCase> cases;
  const auto add = [&](std::string_view name, int level, ProductShape shape,
                       std::vector<std::string> flags) {
    cases.push_back({name, std::move(shape), std::move(flags), level});
  };
  add("plain", 0, {{32, 96}, 96, 24, 96}, {"random"});
  add("edges", 0, {{0, 32, 32, 96, 96}, 128, 20, 64},
      {"empty_group", "first_group_empty", "last_group_empty", "rows_beyond_last_group"});
  add("one_group", 1, {{0, 64, 64}, 64, 16, 32}, {"all_rows_to_one_group", "empty_group"});
  add("ragged", 1, {{1, 32, 64, 97}, 97, 17, 160}, {"one_row", "rows_31_32_33", "ragged"});
  add("tiles", 1, {{1, 130, 140}, 144, 10, 160}, {"boundary_inside_tile", "k_tail"});
  add("wide", 1, {{3, 8}, 8, 130, 160}, {"boundary_inside_tile", "ragged"});
  add("no_k", 1, {{16, 32}, 32, 8, 0}, {"empty"});
  add("nothing", 1, {{0, 0}, 32, 8, 32}, {"empty", "empty_group"});
  add("one_tile", 1, {{128}, 128, 128, 128}, {"all_rows_to_one_group"});
  add("deep", 1, {{3, 8}, 8, 6, 8192}, {"ragged"});
  add("large", 2, {{96, 96, 480, 512}, 512, 160, 512}, {"random"});
  return cases;
}

struct NumberCase {
  Numbers numbers;
  std::string_view name;
  std::vector<std::string> flags;
};

const std::vector<NumberCase>& number_cases() {
  static const std::vector<NumberCase> cases = {
      {Numbers::cancelling, "cancellation", {"cancellation"}},
      {Numbers::giant, "one_giant_term", {"one_giant_term"}},
      {Numbers::alternating, "alternating_sign", {"alternating_sign"}},
      {Numbers::zero_lines, "zero_lines", {"zero_block"}},
      {Numbers::special, "special", {"one_nan", "one_inf", "signed_zero"}},
      {Numbers::extreme_scales,
       "extreme_scales",
       {"scale_byte_0", "scale_byte_1", "scale_byte_254", "scale_byte_255"}},
  };
  return cases;
}

struct Formats {
  std::string_view x;
  std::string_view w;
  int level;
};
constexpr Formats kFormats[] = {{"e4m3", "e4m3", 0},         {"e5m2", "e4m3", 1},
                                {"e4m3fnuz", "e4m3fnuz", 1}, {"e5m2", "e5m2", 2},
                                {"e4m3", "e5m2", 2},         {"e5m2fnuz", "e4m3fnuz", 2}};

constexpr std::string_view kOperators[] = {"grouped_matmul", "grouped_matmul_wgrad"};
bool is_wgrad(std::string_view op) { return op.ends_with("wgrad"); }

/// Whether MX can block the contracted axis of this shape.
bool fits(std::string_view op, ProductScales scales, const ProductShape& shape) {
  if (scales != ProductScales::mx) return true;
  if (!is_wgrad(op)) return shape.k % 32 == 0;
  bool whole = shape.rows % 32 == 0;
  for (const std::int32_t end : shape.ends) whole = whole && end % 32 == 0;
  return whole;
}

struct Case {
  std::string_view op;
  ProductScales scales;
  Formats formats;
  std::string_view sum;
  std::string_view out;
};

void add_product(std::vector<SuiteCase>& cases, const Case& c, std::string_view name,
                 const ProductShape& shape, Numbers numbers, std::vector<std::string> flags) {
  if (!fits(c.op, c.scales, shape)) return;
  Settings set{{"sum", std::string(c.sum)}, {"out", std::string(c.out)}};
  std::string id(c.op);
  for (const std::string_view part : {name_of(c.scales), name, c.sum, c.out}) (id += '.') += part;
  if (c.scales != ProductScales::none) {
    ((id += '.') += c.formats.x) += '_';
    id += c.formats.w;
    // The first operand is x, or dy in the weight gradient, whose other operand is x.
    set.emplace(is_wgrad(c.op) ? "format_dy" : "format_x", std::string(c.formats.x));
    set.emplace(is_wgrad(c.op) ? "format_x" : "format_w", std::string(c.formats.w));
  }
  if (is_wgrad(c.op) &&
      (c.scales == ProductScales::rowwise || c.scales == ProductScales::blockwise)) {
    // As many blocks of 128 rows as groups: then shapes alone leave it open.
    const char* block = c.scales == ProductScales::rowwise ? "Rx1" : "128x1";
    for (const char* key : {"block_dy", "block_x"}) set.emplace(key, block);
  }
  const ProductOperands operands{std::string(c.op),        c.scales, dtype_named(c.formats.x),
                                 dtype_named(c.formats.w), shape,    numbers};
  add_case(cases, std::move(id), std::string(c.op), std::move(set), std::move(flags),
           [operands](const InputStream& in) { return operands.make(in); });
}

/// The machine sums, around the interval of their promotion (four instructions of K = 32).
void add_machines(std::vector<SuiteCase>& cases) {
  for (const Index k : {96, 128, 160}) {
    for (const std::string_view sum : {"h200_wgmma_fast", "h200_wgmma_promote4", "ada_mma"}) {
      const std::string name = "k" + std::to_string(k);
      for (const ProductScales scales : {ProductScales::rowwise, ProductScales::none}) {
        if (scales == ProductScales::none && sum == "h200_wgmma_promote4") continue;
        const Case c{"grouped_matmul", scales, kFormats[0], sum, "f32"};
        add_product(cases, c, name, {{5, 16}, 16, 24, k}, Numbers::plain,
                    {"promotion_interval", "random"});
        add_product(cases, c, name + ".one_giant_term", {{5, 16}, 16, 24, k}, Numbers::giant,
                    {"promotion_interval", "one_giant_term"});
      }
    }
  }
}

}  // namespace

std::vector<SuiteCase> products_cases(int level) {
  std::vector<SuiteCase> cases;
  const std::vector<GroupCase> groups = group_cases();
  const ProductShape small{{32, 64}, 64, 12, 96};
  const auto add_all = [&](std::string_view op, ProductScales scales, const Formats& formats) {
    for (const std::string_view sum : {"exact", "fma_chain"}) {
      for (const std::string_view out : {"bf16", "f32"}) {
        const bool first = &formats == kFormats && sum == "exact";
        if (level < 1 && !first) continue;
        const Case c{op, scales, formats, sum, out};
        for (const GroupCase& group : groups) {
          // Groups are walked with the first formats only; the others meet the plain one.
          if (group.level > level || (!first && group.name != "plain")) continue;
          add_product(cases, c, group.name, group.shape, Numbers::plain, group.flags);
        }
        if (level >= 1 && first) {
          add_product(cases, c, "one_tile.zero_lines", {{128}, 128, 24, 32}, Numbers::zero_lines,
                      {"all_rows_to_one_group", "zero_block"});
        }
        for (const NumberCase& number : number_cases()) {
          if (level < 1 && number.numbers != Numbers::cancelling) continue;
          add_product(cases, c, number.name, small, number.numbers, number.flags);
        }
      }
    }
  };
  for (const ProductScales scales : kProductScales) {
    for (const std::string_view op : kOperators) {
      for (const Formats& formats : kFormats) {
        const bool plain = scales == ProductScales::none;
        if (formats.level > level || (plain && &formats != kFormats)) continue;
        add_all(op, scales, formats);
      }
    }
  }
  if (level >= 1) add_machines(cases);
  return cases;
}

}  // namespace mxo
