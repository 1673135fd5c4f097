// Cases in pairs that differ only in padding and unused bytes: NaN in one, numbers in the other.
#include <algorithm>
#include <cstring>

#include "formats/scale_layout.h"
#include "golden/suites/edge_flags.h"
#include "golden/suites/families.h"
#include "golden/suites/product_operands.h"
#include "golden/suites/selections.h"

namespace mxo {
namespace {

/// The byte that is written where no kernel may read.
enum class Poison : std::uint8_t { nan, finite };

/// One pair: operands that both versions share, and what spoils them.
struct Pair {
  std::string name;
  std::string op;
  Settings set;
  std::function<NamedTensors(const InputStream&, Poison)> operands;
  std::vector<std::string> flags;
  int level = 0;
};

/// Every byte FF is NaN in e4m3, e5m2, e8m0, bf16 and f32; else 2, or a scale of 8.
void fill(Tensor& tensor, bool scales, Poison poison, Index from, Index to) {
  const std::size_t size = size_of(tensor.dtype());
  std::uint32_t pattern = 0xFFFFFFFFu;
  if (poison == Poison::finite) {
    pattern = size == 4 ? 0x40000000u : size == 2 ? 0x4000u : scales ? 0x82u : 0x40u;
  }
  for (Index i = from; i < to; ++i) {
    std::memcpy(tensor.data() + static_cast<std::size_t>(i) * size, &pattern, size);
  }
}

/// Slices [from, to) along the first axis.
void fill_rows(NamedTensors& tensors, const std::string& name, Poison poison, Index from,
               Index to) {
  Tensor& tensor = tensors.at(name);
  const Index row = tensor.extent(0) == 0 ? 0 : tensor.elements() / tensor.extent(0);
  fill(tensor, name.ends_with("scales"), poison, from * row, to * row);
}

// Rows 96 to 159 belong to no group, groups 0 and 2 are empty.
constexpr Index kRows = 160;
constexpr Index kCompared = 96;
const std::vector<std::int32_t> kEnds{0, 32, 32, 96};

Tensor ends() { return integers({0, 32, 32, 96}); }

/// Rows past the last end, and all of the experts that have no row.
void spoil_groups(NamedTensors& tensors, Poison poison) {
  const auto experts = static_cast<Index>(kEnds.size());
  for (const auto& [name, tensor] : NamedTensors(tensors)) {
    if (name == "group_ends") continue;
    const Index extent = tensor.extent(0);
    if (extent == kRows) fill_rows(tensors, name, poison, kCompared, kRows);
    if (extent == kRows / 32) fill_rows(tensors, name, poison, kCompared / 32, extent);
    if (extent != experts) continue;
    fill_rows(tensors, name, poison, 0, 1);
    fill_rows(tensors, name, poison, 2, 3);
  }
}

std::vector<Pair> product_pairs() {
  std::vector<Pair> pairs;
  for (const ProductScales scales : kProductScales) {
    for (const std::string op : {"grouped_matmul", "grouped_matmul_wgrad"}) {
      const ProductOperands make{
          op, scales, Dtype::e4m3, Dtype::e4m3, {kEnds, kRows, 20, 64}, Numbers::plain};
      pairs.push_back({op + "." + std::string(name_of(scales)),
                       op,
                       {},
                       [make](const InputStream& in, Poison poison) {
                         NamedTensors tensors = make.make(in);
                         spoil_groups(tensors, poison);
                         return tensors;
                       },
                       {"rows_beyond_last_group", "empty_group"}});
    }
  }
  for (const std::string recipe : {"mxfp8_rceil", "fp8_rowwise", "fp8_blockwise", "bf16"}) {
    pairs.push_back({"linear." + recipe,
                     "grouped_linear",
                     {{"recipe", recipe}},
                     [](const InputStream& in, Poison poison) {
                       NamedTensors tensors = one("group_ends", ends());
                       tensors.emplace("x", in.wide("x", Dtype::bf16, {kRows, 64}, 3));
                       tensors.emplace("dy", in.wide("dy", Dtype::bf16, {kRows, 32}, 3));
                       tensors.emplace("w", in.normal("w", Dtype::bf16, {4, 32, 64}));
                       spoil_groups(tensors, poison);
                       return tensors;
                     },
                     {"rows_beyond_last_group", "empty_group"},
                     recipe == "mxfp8_rceil" ? 0 : 1});
  }
  return pairs;
}

/// An operator of rows with group_ends: floats [kRows, columns] under each of `names`.
Pair row_pair(std::string name, std::string op, Settings set, std::vector<std::string> names,
              Index columns) {
  return {std::move(name),
          std::move(op),
          std::move(set),
          [names = std::move(names), columns](const InputStream& in, Poison poison) {
            NamedTensors tensors = one("group_ends", ends());
            for (const std::string& operand : names) {
              tensors.emplace(operand, in.wide(operand, Dtype::bf16, {kRows, columns}, 3));
              fill_rows(tensors, operand, poison, kCompared, kRows);
            }
            return tensors;
          },
          {"rows_beyond_last_group", "empty_group"}};
}

std::vector<Pair> row_pairs() {
  std::vector<Pair> pairs{
      row_pair("quantize", "quantize", {{"block", "32x1"}}, {"x"}, 64),
      row_pair("quantize.turned", "quantize", {{"block", "32x1"}, {"transpose", "true"}}, {"x"},
               64),
      row_pair("column_sum", "column_sum", {}, {"x"}, 24),
      row_pair("swiglu_quantize", "swiglu_quantize", {{"block", "32x1"}}, {"x"}, 64),
      row_pair("pad", "pad_groups", {}, {"x"}, 24),
  };
  pairs.push_back({"transpose",
                   "scaling_aware_transpose",
                   {},
                   [](const InputStream& in, Poison poison) {
                     NamedTensors tensors = one("group_ends", ends());
                     tensors.emplace("codes", in.bits("codes", Dtype::u8, {kRows, 40}));
                     Tensor scales = in.bits("scales", Dtype::f32, {kRows, 1});
                     for (Index r = 0; r < kRows; ++r) {
                       std::uint32_t& bits = scales.as<std::uint32_t>()[r];
                       bits = (127u + bits % 6) << 23;
                     }
                     tensors.emplace("scales", std::move(scales));
                     spoil_groups(tensors, poison);
                     return tensors;
                   },
                   {"rows_beyond_last_group", "empty_group"}});
  pairs.push_back({"unpad",
                   "unpad_groups",
                   {{"rows", "60"}},
                   [](const InputStream& in, Poison poison) {
                     // Groups of 20, 0 and 40 rows, 32 and 64 of them with their padding.
                     NamedTensors tensors = one("y", in.bits("y", Dtype::bf16, {160, 24}));
                     tensors.emplace("group_ends", integers({20, 20, 60}));
                     tensors.emplace("padded_starts", integers({0, 32, 32}));
                     fill_rows(tensors, "y", poison, 20, 32);
                     fill_rows(tensors, "y", poison, 72, 160);
                     return tensors;
                   },
                   {"empty_group", "ragged"}});
  pairs.push_back({"permute",
                   "permute",
                   {},
                   [](const InputStream& in, Poison poison) {
                     NamedTensors tensors = one("x", in.bits("x", Dtype::bf16, {8, 24}));
                     tensors.emplace("indices", integers({4, 5, -1, -1, 0, 2, -1}));
                     for (const Index row : {1, 3, 6, 7}) {
                       fill_rows(tensors, "x", poison, row, row + 1);
                     }
                     return tensors;
                   },
                   {}});
  pairs.push_back({"unpermute",
                   "unpermute",
                   {{"rows", "8"}},
                   [](const InputStream& in, Poison poison) {
                     NamedTensors tensors = one("y", in.bits("y", Dtype::bf16, {7, 24}));
                     tensors.emplace("indices", integers({4, 5, -1, -1, 0, 2, -1}));
                     for (const Index row : {2, 3, 6}) {
                       fill_rows(tensors, "y", poison, row, row + 1);
                     }
                     return tensors;
                   },
                   {"dropped_by_capacity"}});
  return pairs;
}

/// Scale padding: bytes of 128x4 tiles that stand for no scale of [200, 7].
NamedTensors padded_scales(const InputStream& in, Poison poison) {
  constexpr Index rows = 200;
  constexpr Index columns = 7;
  Tensor blocked(Dtype::u8, {blocked_bytes(rows, columns)});
  fill(blocked, true, poison, 0, blocked.elements());
  const Tensor scales = in.bits("scales", Dtype::u8, {rows, columns});
  for (Index r = 0; r < rows; ++r) {
    for (Index c = 0; c < columns; ++c) {
      blocked.as<std::uint8_t>()[blocked_offset(r, c, ceil_div(columns, kTileColumns))] =
          scales.as<std::uint8_t>()[r * columns + c];
    }
  }
  return one("blocked", std::move(blocked));
}

/// Rows that dispatch left as padding, of every rank: those behind each expert's tokens.
void spoil_padding(NamedTensors& tensors, std::string_view part, const SelectionCase& c,
                   const std::vector<Tensor>& chosen, Index alignment, Poison poison) {
  for (Index rank = 0; rank < c.ranks; ++rank) {
    const std::string name = rank_operand(rank, part);
    Index start = 0;
    for (Index e = rank * c.local(); e < (rank + 1) * c.local(); ++e) {
      Index tokens = 0;
      for (const Tensor& experts : chosen) {
        const std::int32_t* first = experts.as<std::int32_t>();
        tokens += std::count(first, first + experts.elements(), static_cast<std::int32_t>(e));
      }
      const Index taken = round_up(std::max<Index>(tokens, 1), alignment);
      fill_rows(tensors, name, poison, start + tokens, start + taken);
      start += taken;
    }
    fill_rows(tensors, name, poison, start, tensors.at(name).extent(0));
  }
}

Pair exchange_pair(const std::string& op, std::string_view rows) {
  SelectionCase c;
  for (const SelectionCase& one_of : selection_cases()) {
    if (one_of.chosen == Chosen::nothing_to_send) c = one_of;
  }
  return {op,
          op,
          {{"experts", std::to_string(c.experts)},
           {"layout", "expert_major_padded"},
           {"alignment", "16"}},
          [c, rows](const InputStream& in, Poison poison) {
            constexpr Index alignment = 16;
            constexpr Index width = 64;
            NamedTensors tensors;
            const std::vector<Tensor> chosen = selections(c, in);
            for (Index rank = 0; rank < c.ranks; ++rank) {
              const std::string name = rank_operand(rank, rows);
              tensors.emplace(name, in.wide(name, Dtype::bf16,
                                            {received_rows(c, chosen, rank, alignment), width}, 3));
              tensors.emplace(rank_operand(rank, "experts"),
                              chosen[static_cast<std::size_t>(rank)]);
            }
            spoil_padding(tensors, rows, c, chosen, alignment, poison);
            return tensors;
          },
          {"nothing_to_send", "ragged"}};
}

std::vector<Pair> all_pairs() {
  std::vector<Pair> pairs = product_pairs();
  for (auto& more : row_pairs()) pairs.push_back(std::move(more));
  pairs.push_back({"unswizzle",
                   "unswizzle_scales",
                   {{"rows", "200"}, {"columns", "7"}},
                   padded_scales,
                   {"ragged", "k_tail"}});
  pairs.push_back(exchange_pair("combine", "y"));
  pairs.push_back(exchange_pair("dispatch_backward", "dy"));
  return pairs;
}

}  // namespace

std::vector<SuiteCase> poison_cases(int level) {
  std::vector<SuiteCase> cases;
  for (const Pair& pair : all_pairs()) {
    if (pair.level > level) continue;
    for (const Poison poison : {Poison::nan, Poison::finite}) {
      const bool nan = poison == Poison::nan;
      std::vector<std::string> flags = pair.flags;
      flags.emplace_back(nan ? kPoisonNan : kPoisonFinite);
      const std::string shared = "poison." + pair.name;
      add_case(cases, shared + (nan ? ".nan" : ".finite"), pair.op, pair.set, std::move(flags),
               [shared, pair, poison](const InputStream& in) {
                 return pair.operands(in.named(shared), poison);
               });
    }
  }
  return cases;
}

}  // namespace mxo
