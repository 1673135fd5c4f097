// The table of an expert layer's kernels, pass by pass.
#include <fmt/format.h>

#include "formats/scale_layout.h"
#include "ops/grouped_matmul.h"
#include "ops/linear_factor.h"
#include "ops/scale_layouts.h"
#include "tools/bench/operator_rows.h"

namespace mxo::tools {
namespace {

constexpr Index kLayerTokens = 131072;
constexpr Index kLayerGroups = 8;

struct Sizes {
  Index tokens, n, k, groups;
};

/// Which of its three tensors, [M, K], [G, N, K] and [M, N], an operator takes.
enum class Source : std::uint8_t { x, w, dy };
enum class Work : std::uint8_t {
  along_columns,  ///< quantised along the last axis
  transposed,     ///< quantised along the first, stored transposed
  m_groups,       ///< scales to blocked tiles, as formats/scale_layout.h names them
  k_groups,
  per_group_3d,
  per_group_3d_transposed,
  forward,
  dgrad,
  wgrad
};

struct KernelRow {
  const char* pass;
  const char* kernel;
  Work work;
  Source source;
  double us;  ///< torchao's MoE training page, B200, dim 7168, hidden 2048, 131072 tokens
};
constexpr KernelRow kKernels[] = {
    {"forward", "quantise x along K", Work::along_columns, Source::x, 525},
    {"forward", "quantise w along K", Work::along_columns, Source::w, 65},
    {"forward", "scales of x, M groups", Work::m_groups, Source::x, 30},
    {"forward", "scales of w, per group 3-D", Work::per_group_3d, Source::w, 13},
    {"forward", "grouped product 2D-3D", Work::forward, Source::x, 1671},
    {"dA", "quantise dy along N", Work::along_columns, Source::dy, 144},
    {"dA", "quantise w along N", Work::transposed, Source::w, 71},
    {"dA", "scales of dy, M groups", Work::m_groups, Source::dy, 19},
    {"dA", "scales of w, per group 3-D", Work::per_group_3d_transposed, Source::w, 13},
    {"dA", "grouped product 2D-3D", Work::dgrad, Source::dy, 1683},
    {"dB", "quantise dy along M, transposed", Work::transposed, Source::dy, 142},
    {"dB", "quantise x along M, transposed", Work::transposed, Source::x, 472},
    {"dB", "scales of dy, K groups", Work::k_groups, Source::dy, 200},
    {"dB", "scales of x, K groups", Work::k_groups, Source::x, 208},
    {"dB", "grouped product 2D-2D", Work::wgrad, Source::dy, 2103},
};

/// Rows and columns of a source, and how many of them lie one behind the other.
struct Matrix {
  Index count, rows, columns;
  double elements() const { return static_cast<double>(count * rows * columns); }
};
Matrix matrix_of(const Sizes& s, Source source) {
  if (source == Source::w) return {s.groups, s.n, s.k};
  return {1, s.tokens, source == Source::x ? s.k : s.n};
}

BackendTensor tensor_of(Backend& backend, const Sizes& s, Source source) {
  const Matrix m = matrix_of(s, source);
  const auto seed = static_cast<unsigned>(source) + 1;
  if (source == Source::w) return normal(backend, {m.count, m.rows, m.columns}, seed, 0.02f);
  return normal(backend, {m.rows, m.columns}, seed);
}

const LinearRecipe& mx_recipe() { return linear_recipe_named("mxfp8_rceil"); }

TimedCall quantize_call(Backend& backend, const Sizes& s, const KernelRow& kernel) {
  struct Operands {
    BackendTensor x;
    OwnedScaledTensor to;
  };
  const auto of = std::make_shared<Operands>();
  of->x = tensor_of(backend, s, kernel.source);
  Matrix m = matrix_of(s, kernel.source);
  const bool turns = kernel.work == Work::transposed;
  if (turns) std::swap(m.rows, m.columns);
  std::vector<Index> shape{m.rows, m.columns};
  if (kernel.source == Source::w) shape.insert(shape.begin(), m.count);
  of->to = OwnedScaledTensor(backend, Dtype::e4m3, shape, Dtype::e8m0,
                             shape_of_scales(shape, kMxColumns), kMxColumns);
  const ScaledResult to = turns ? transposed(of->to.result()) : of->to.result();
  const double moved =
      bytes_of(of->x.operand()) + bytes_of(of->to.codes()) + bytes_of(of->to.scales());
  return {"quantize", moved, [&backend, of, to] {
            quantize(backend, {of->x.operand(), {}, to, mx_rule(ScaleMode::rceil)});
          }};
}

/// Of scales along the last axis, or along the first of what is stored transposed.
std::vector<Index> scales_shape(const Sizes& s, const KernelRow& kernel) {
  const Matrix m = matrix_of(s, kernel.source);
  const bool transposed =
      kernel.work == Work::k_groups || kernel.work == Work::per_group_3d_transposed;
  std::vector<Index> shape{m.rows, m.columns / kMxBlock};
  if (transposed) shape = {m.columns, m.rows / kMxBlock};
  if (kernel.source == Source::w) shape.insert(shape.begin(), m.count);
  return shape;
}

TimedCall scales_call(Backend& backend, const Sizes& s, const KernelRow& kernel) {
  struct Operands {
    BackendTensor scales, blocked;
    MirroredTensor ends;
  };
  const std::vector<Index> shape = scales_shape(s, kernel);
  const auto of = std::make_shared<Operands>();
  ScaleLayout layout = ScaleLayout::per_group_3d;
  if (kernel.source != Source::w) {
    const bool rows = kernel.work == Work::m_groups;
    layout = rows ? ScaleLayout::m_groups : ScaleLayout::k_groups;
    of->ends = group_ends(backend, shape[rows ? 0 : 1], s.groups, Groups::even);
  }
  const auto room = [&](const std::vector<Index>& extents) {
    return BackendTensor(backend, Dtype::e8m0, extents.data(), static_cast<int>(extents.size()));
  };
  of->scales = room(shape);
  backend.fill_zero(static_cast<std::byte*>(of->scales.result().data),
                    static_cast<std::size_t>(of->scales.operand().elements()));
  of->blocked = room(blocked_shape(layout, shape, of->ends.given() ? s.groups : 0));
  return {"swizzle_scales", bytes_of(of->scales.operand()) + bytes_of(of->blocked.operand()),
          [&backend, of, layout] {
            swizzle_scales(backend,
                           {of->scales.operand(), of->ends.given() ? of->ends.operand() : Operand{},
                            of->blocked.result(), layout});
          }};
}

TimedCall product_call(Backend& backend, const Sizes& s, const KernelRow& kernel) {
  struct Operands {
    OwnedScaledTensor a, b;
    BackendTensor y;
    MirroredTensor ends;
  };
  const auto of = std::make_shared<Operands>();
  of->ends = group_ends(backend, s.tokens, s.groups, Groups::even);
  const Operand ends = of->ends.operand();
  const auto tokens = [&](Source source) { return tensor_of(backend, s, source); };
  if (kernel.work == Work::wgrad) {
    of->a =
        scaled_along_tokens(backend, mx_recipe(), Dtype::e4m3, tokens(Source::dy).operand(), ends);
    of->b =
        scaled_along_tokens(backend, mx_recipe(), Dtype::e4m3, tokens(Source::x).operand(), ends);
    of->y = BackendTensor(backend, Dtype::bf16, {s.groups, s.n, s.k});
    return {"grouped_matmul_wgrad", 0.0, [&backend, of] {
              grouped_matmul_wgrad(backend, {of->a.view(), of->b.view(), of->ends.operand(), kExact,
                                             of->y.result()});
            }};
  }
  const bool forward = kernel.work == Work::forward;
  of->a = scaled_along_columns(backend, mx_recipe(), Dtype::e4m3, tokens(kernel.source).operand(),
                               LinearSide::tokens);
  const BackendTensor w = tensor_of(backend, s, Source::w);
  of->b = forward ? scaled_along_columns(backend, mx_recipe(), Dtype::e4m3, w.operand(),
                                         LinearSide::weight)
                  : scaled_along_rows_transposed(backend, mx_recipe(), Dtype::e4m3, w.operand());
  of->y = BackendTensor(backend, Dtype::bf16, {s.tokens, forward ? s.n : s.k});
  return {"grouped_matmul", 0.0, [&backend, of] {
            grouped_matmul(
                backend, {of->a.view(), of->b.view(), of->ends.operand(), kExact, of->y.result()});
          }};
}

bool is_product(Work work) { return work >= Work::forward; }
bool is_quantiser(Work work) { return work <= Work::transposed; }

std::string shape_text(const Sizes& s, const KernelRow& kernel) {
  const Matrix m = matrix_of(s, kernel.source);
  if (kernel.work == Work::forward) {
    return fmt::format("({}, {}) x ({}, {}, {})", s.tokens, s.k, s.groups, s.k, s.n);
  }
  if (kernel.work == Work::dgrad) {
    return fmt::format("({}, {}) x ({}, {}, {})", s.tokens, s.n, s.groups, s.n, s.k);
  }
  if (kernel.work == Work::wgrad) {
    return fmt::format("({}, {}) x ({}, {})", s.n, s.tokens, s.tokens, s.k);
  }
  std::vector<Index> shape{m.rows, m.columns};
  if (kernel.source == Source::w) shape.insert(shape.begin(), m.count);
  if (!is_quantiser(kernel.work)) shape = scales_shape(s, kernel);
  return fmt::format("({})", fmt::join(shape, ", "));
}

std::vector<OperatorRow> kernel_rows(const Bench& bench) {
  const Model& model = bench.model != nullptr ? *bench.model : model_named("dsv3");
  const Sizes s{bench.token_count(kLayerTokens), bench.extent(model.intermediate),
                bench.extent(model.hidden), kLayerGroups};
  const bool published = model.name == "dsv3";
  std::vector<OperatorRow> rows;
  for (const KernelRow& kernel : kKernels) {
    const Matrix m = matrix_of(s, kernel.source);
    OperatorRow row;
    row.labels = {{"pass", words(kernel.pass)},
                  {"kernel", words(kernel.kernel)},
                  {"of", words(shape_text(s, kernel))}};
    row.make = [=](Backend& backend) {
      if (is_product(kernel.work)) return product_call(backend, s, kernel);
      return is_quantiser(kernel.work) ? quantize_call(backend, s, kernel)
                                       : scales_call(backend, s, kernel);
    };
    const double all = matrix_of(s, Source::x).elements() + matrix_of(s, Source::w).elements() +
                       matrix_of(s, Source::dy).elements();
    row.need = is_product(kernel.work) ? 3.0 * all : 6.0 * m.elements();
    if (is_product(kernel.work)) {
      row.flops = 2.0 * static_cast<double>(s.tokens) * static_cast<double>(s.n * s.k);
      row.question = {
          {"kind", "product"}, {"rows", s.tokens}, {"n", s.n}, {"k", s.k}, {"groups", s.groups}};
    } else if (is_quantiser(kernel.work)) {
      row.question = {{"kind", "quantize"},
                      {"rows", m.count * m.rows},
                      {"columns", m.columns},
                      {"transposed", kernel.work == Work::transposed}};
    }
    row.published = {{"published us", published ? figure(kernel.us, 0) : absent()}};
    rows.push_back(std::move(row));
  }
  return rows;
}

}  // namespace

Table kernels_table(const Bench& bench) {
  Table table{
      "kernels",
      "Kernels of a grouped linear layer in MXFP8 by pass; published: torchao's MoE training "
      "page, B200, 131072 tokens, 8 groups",
      {},
      {}};
  time_rows(bench, kernel_rows, table);
  table.notes.emplace_back(
      "products: ours sum exactly and round once, into bf16; torch: bf16 forward");
  return table;
}

}  // namespace mxo::tools
