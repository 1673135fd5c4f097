// grouped_linear as a composition of operators: forward and backward.
#include "ops/grouped_linear.h"
#include "formats/aliases.h"
#include "formats/nearest_name.h"

#include "ops/checked.h"
#include "ops/elementwise.h"
#include "ops/grouped_matmul.h"
#include "ops/linear_factor.h"
#include "ops/pad_groups.h"
#include "ops/quantize.h"

namespace mxo {
namespace {

bool quantized_before(const GroupedLinear& op) { return op.x_codes.given(); }

const Operand& tokens_of(const GroupedLinear& op) {
  return quantized_before(op) ? op.x_codes : op.x;
}

Index alignment_of(const GroupedLinear& op) {
  return op.alignment != 0 ? op.alignment : op.recipe.alignment;
}

/// True if the weight gradient quantises blocks of 32 tokens.
bool blocks_tokens(const GroupedLinear& op) {
  return op.recipe.mx() && op.recipe.wgrad == WgradPrecision::quantized && !quantized_before(op);
}

void check_x(const Check& check, const GroupedLinear& op) {
  if (!quantized_before(op)) {
    check.rank("x", op.x, 2);
    check.dtype("x", op.x, {Dtype::bf16, Dtype::f32});
    return;
  }
  check.that(!op.x.given(), "x: found both x and x.codes, needs one of them");
  if (op.recipe.tokens.columns == kWhole || !op.recipe.scaled()) {
    throw Error(Fault::unsupported, "grouped_linear: x.codes: found recipe " +
                                        std::string(op.recipe.name) +
                                        ", needs one that scales blocks of a row");
  }
  check.rank("x.codes", op.x_codes, 2);
  check.dtype("x.codes", op.x_codes, {op.format});
  check.dtype("x.scales", op.x_scales, {op.recipe.scale});
  if (op.recipe.mx()) check.multiple("x.codes", "K", op.x_codes.extent[1], kMxBlock);
  check.shape("x.scales", op.x_scales, shape_of_scales(shape_of(op.x_codes), op.recipe.tokens));
}

void check_padding(const GroupedLinear& op) {
  if (op.padding == GroupPadding::none) return;
  const Index alignment = alignment_of(op);
  const bool fits = alignment > 0 && (!blocks_tokens(op) || alignment % kMxBlock == 0);
  if (fits) return;
  throw Error(Fault::argument,
              "grouped_linear: alignment: found " + std::to_string(alignment) + ", needs a " +
                  (blocks_tokens(op) ? "positive multiple of 32" : "positive number"));
}

/// True if the weight gradient is a product of bf16 operands.
bool wgrad_is_high(const GroupedLinear& op) {
  return op.recipe.wgrad == WgradPrecision::high || quantized_before(op);
}

void check_sum(const Backend& backend, const Accumulation& sum, OperandKind kind) {
  if (is_machine(sum)) require_machine_takes("grouped_linear", sum, kind);
  if (backend.honours(sum)) return;
  throw Error(Fault::unsupported, "grouped_linear: sum: found " + std::string(sum.name) +
                                      ", needs one that " + std::string(backend.name()) +
                                      " honours");
}

/// What forward and backward ask of the operands they share.
void check_operands(const Check& check, const Backend& backend, const GroupedLinear& op) {
  check_x(check, op);
  const Index k = tokens_of(op).extent[1];
  check.rank("w", op.w, 3);
  check.dtype("w", op.w, {Dtype::bf16, Dtype::f32});
  check.shape("w", op.w, {op.w.extent[0], op.w.extent[1], k});
  if (op.recipe.mx()) check.multiple("x", "K", k, kMxBlock);
  if (op.recipe.scaled() && !is_minifloat8(op.format)) {
    throw Error(Fault::dtype, "grouped_linear: format: found " + std::string(name_of(op.format)) +
                                  ", needs an 8-bit float");
  }
  check.group_ends(backend, op.group_ends, tokens_of(op).extent[0]);
  check.shape("group_ends", op.group_ends, {op.w.extent[0]});
  check_padding(op);
  check_sum(backend, op.sum, product_kind(op.recipe, op.format));
}

/// A vector of N, or one for each group.
template <typename Void>
void check_bias(const Check& check, std::string_view name, const AnyView<Void>& bias,
                const GroupedLinear& op) {
  const Index n = op.w.extent[1];
  check.rank(name, bias, 1, 2);
  check.dtype(name, bias, {Dtype::bf16, Dtype::f32});
  check.shape(name, bias,
              bias.rank == 1 ? std::vector<Index>{n} : std::vector<Index>{op.w.extent[0], n});
}

/// `written` shares no byte with what the call still reads.
void check_apart(const Check& check, std::string_view name, const Result& written,
                 const GroupedLinear& op, const Operand& dy) {
  const std::pair<std::string_view, const Operand&> all[] = {
      {"x", op.x}, {"x.codes", op.x_codes},       {"x.scales", op.x_scales},
      {"w", op.w}, {"group_ends", op.group_ends}, {"bias", op.bias},
      {"dy", dy}};
  for (const auto& [other, operand] : all) {
    if (operand.given()) check.apart(name, written, other, operand);
  }
}

GroupedMatmul product(const GroupedLinear& op, const ScaledTensor& x, const ScaledTensor& w,
                      const Result& y) {
  return {x, w, op.group_ends, op.sum, y};
}

/// The first rows of a matrix.
Operand first_rows(Operand matrix, Index rows) {
  matrix.extent[0] = rows;
  return matrix;
}

/// Tokens in padded groups, and where the groups then end.
struct PaddedTokens {
  BackendTensor rows;
  BackendTensor starts;
  BackendTensor ends;
};

PaddedTokens padded(Backend& backend, const GroupedLinear& op, const Operand& rows) {
  const Index groups = op.group_ends.extent[0];
  const Index alignment = alignment_of(op);
  const Index length = padded_rows(rows.extent[0], groups, alignment);
  PaddedTokens p{BackendTensor(backend, rows.dtype, {length, rows.extent[1]}),
                 BackendTensor(backend, Dtype::i32, {groups}),
                 BackendTensor(backend, Dtype::i32, {groups})};
  pad_groups(backend,
             {rows, op.group_ends, p.rows.result(), p.starts.result(), p.ends.result(), alignment});
  return p;
}

/// x as the weight gradient sees it: as given, dequantised, or what the forward pass kept.
Operand wgrad_x(Backend& backend, const SavedLinear& saved, BackendTensor& dequantized) {
  if (saved.x_bf16.given()) return saved.x_bf16.operand();
  if (!quantized_before(saved.call)) return saved.call.x;
  const Operand& codes = saved.call.x_codes;
  dequantized = BackendTensor(backend, Dtype::bf16, {codes.extent[0], codes.extent[1]});
  dequantize(backend,
             {{codes, saved.call.x_scales, saved.call.recipe.tokens}, {}, dequantized.result()});
  return dequantized.operand();
}

/// As grouped_matmul_wgrad will, but before any byte is written.
void check_main_grad(const Check& check, const GroupedLinearBackward& op) {
  check.dtype("main_grad", op.main_grad, {Dtype::f32});
  check.shape("main_grad", op.main_grad, {op.dw.extent[0], op.dw.extent[1], op.dw.extent[2]});
  check.that(op.dw.dtype == Dtype::f32,
             "dw: found " + std::string(name_of(op.dw.dtype)) + ", needs f32 with main_grad");
  if (op.dx.given()) check.apart("dx", op.dx, "main_grad", op.main_grad);
  if (op.main_grad.data != op.dw.data) check.apart("dw", op.dw, "main_grad", op.main_grad);
}

void run_wgrad(Backend& backend, const SavedLinear& saved, const GroupedLinearBackward& back) {
  const GroupedLinear& op = saved.call;
  LinearRecipe recipe = op.recipe;
  if (wgrad_is_high(op)) recipe.scale = Dtype::bf16;

  BackendTensor dequantized;
  Operand x = wgrad_x(backend, saved, dequantized);
  Operand dy = back.dy;
  Operand ends = op.group_ends;
  PaddedTokens padded_x;
  PaddedTokens padded_dy;
  if (op.padding == GroupPadding::alignment) {
    padded_x = padded(backend, op, x);
    padded_dy = padded(backend, op, dy);
    x = padded_x.rows.operand();
    dy = padded_dy.rows.operand();
    ends = padded_x.ends.operand();
  } else if (recipe.mx()) {
    // Every group ends on a multiple of 32, so the rows cut off here belong to none.
    const Index whole = x.extent[0] / kMxBlock * kMxBlock;
    x = first_rows(x, whole);
    dy = first_rows(dy, whole);
  }
  const OwnedScaledTensor qdy = scaled_along_tokens(backend, recipe, op.format, dy, ends);
  const OwnedScaledTensor qx = scaled_along_tokens(backend, recipe, op.format, x, ends);
  grouped_matmul_wgrad(
      backend, {qdy.view(), qx.view(), ends, op.wgrad_sum, back.dw, back.main_grad, back.product});
}

}  // namespace

OperandKind product_kind(const LinearRecipe& recipe, Dtype format) {
  if (!recipe.scaled()) return OperandKind::bf16;
  return operand_kind(format, format, recipe.mx());
}

OperandKind wgrad_kind(const GroupedLinear& op) {
  return wgrad_is_high(op) ? OperandKind::bf16 : product_kind(op.recipe, op.format);
}

const LinearRecipe& linear_recipe_named(std::string_view name) {
  std::vector<std::string_view> known;
  const std::string_view other = canonical_name(Word::recipe, name);
  for (const LinearRecipe& recipe : kLinearRecipes) {
    if (recipe.name == (other.empty() ? name : other)) return recipe;
    known.push_back(recipe.name);
  }
  throw Error(Fault::argument, unknown_name("recipe", name, known));
}

SavedLinear grouped_linear(Backend& backend, const GroupedLinear& op) {
  const Check check("grouped_linear");
  check_operands(check, backend, op);
  if (op.bias.given()) check_bias(check, "bias", op.bias, op);
  if (op.y.given()) {
    check.dtype("y", op.y, {Dtype::bf16, Dtype::f32});
    check.shape("y", op.y, {tokens_of(op).extent[0], op.w.extent[1]});
    check_apart(check, "y", op.y, op, {});
  } else if (op.recipe.scaled()) {
    return {op, {}, {}};  // the backward pass quantises along other axes
  }

  // Padding would change no row of y: it matters only where tokens are contracted.
  OwnedScaledTensor x =
      quantized_before(op)
          ? OwnedScaledTensor::borrowed({op.x_codes, op.x_scales, op.recipe.tokens})
          : scaled_along_columns(backend, op.recipe, op.format, op.x, LinearSide::tokens);
  OwnedScaledTensor w =
      scaled_along_columns(backend, op.recipe, op.format, op.w, LinearSide::weight);
  if (op.y.given()) {
    grouped_matmul(backend, product(op, x.view(), w.view(), op.y));
    if (op.bias.given()) add_bias(backend, {to_read(op.y), op.bias, op.group_ends, op.y});
  }

  SavedLinear saved{op, {}, {}};
  if (!op.recipe.scaled()) {
    saved.x_bf16 = x.take_codes();
    saved.w_bf16 = w.take_codes();
  }
  return saved;
}

void grouped_linear_backward(Backend& backend, const SavedLinear& saved,
                             const GroupedLinearBackward& op) {
  const GroupedLinear& call = saved.call;
  const Check check("grouped_linear");
  check_operands(check, backend, call);
  const Index rows = tokens_of(call).extent[0];
  const Index n = call.w.extent[1];
  const Index k = call.w.extent[2];
  check.rank("dy", op.dy, 2);
  check.dtype("dy", op.dy, {Dtype::bf16, Dtype::f32});
  check.shape("dy", op.dy, {rows, n});
  if (op.dx.given()) {
    if (call.recipe.mx()) check.multiple("dy", "N", n, kMxBlock);
    check.dtype("dx", op.dx, {Dtype::bf16, Dtype::f32});
    check.shape("dx", op.dx, {rows, k});
    check_apart(check, "dx", op.dx, call, op.dy);
  }
  if (op.dw.given()) {
    check_sum(backend, call.wgrad_sum, wgrad_kind(call));
    if (blocks_tokens(call) && call.padding == GroupPadding::none) {
      check.group_ends(backend, call.group_ends, rows, kMxBlock);
    }
    check.dtype("dw", op.dw, {Dtype::bf16, Dtype::f32});
    check.shape("dw", op.dw, {call.w.extent[0], n, k});
    check_apart(check, "dw", op.dw, call, op.dy);
    if (op.dx.given()) check.apart("dw", op.dw, "dx", op.dx);
    if (op.main_grad.given()) check_main_grad(check, op);
  }
  if (op.dbias.given()) {
    check_bias(check, "dbias", op.dbias, call);
    check_apart(check, "dbias", op.dbias, call, op.dy);
    if (op.dx.given()) check.apart("dbias", op.dbias, "dx", op.dx);
    if (op.dw.given()) check.apart("dbias", op.dbias, "dw", op.dw);
  }

  if (op.dx.given()) {
    const OwnedScaledTensor dy =
        scaled_along_columns(backend, call.recipe, call.format, op.dy, LinearSide::tokens);
    const Operand weight = saved.w_bf16.given() ? saved.w_bf16.operand() : call.w;
    const OwnedScaledTensor w =
        scaled_along_rows_transposed(backend, call.recipe, call.format, weight);
    grouped_matmul(backend, product(call, dy.view(), w.view(), op.dx));
  }
  if (op.dw.given()) run_wgrad(backend, saved, op);
  if (op.dbias.given()) column_sum(backend, {op.dy, call.group_ends, op.dbias});
}

}  // namespace mxo
