// The right numbers, written wrongly: truncation, lost rows, padding, signs.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "formats/exp.h"
#include "golden/explain/hypotheses.h"
#include "golden/explain/wide_values.h"

namespace mxo {
namespace {

using Rewrite = std::function<bool(const Call&, NamedTensors&)>;

void add(std::vector<Hypothesis>& list, std::string name, std::string phrase, Rewrite rewrite) {
  list.push_back({std::move(name), std::move(phrase), Stage::output, [](Call&) { return true; },
                  std::move(rewrite)});
}

/// The output of a product, "y" or "dw".
NamedTensors::iterator only_output(NamedTensors& out) {
  const auto y = out.find("y");
  return y != out.end() ? y : out.find("dw");
}

/// The f32 result cut to bf16, toward zero.
bool truncate(const Call&, NamedTensors& out) {
  const auto y = only_output(out);
  if (y == out.end() || y->second.dtype() != Dtype::f32) return false;
  Tensor cut(Dtype::bf16, y->second.shape());
  for (Index i = 0; i < cut.elements(); ++i) {
    cut.template as<std::uint16_t>()[i] =
        static_cast<std::uint16_t>(y->second.as<std::uint32_t>()[i] >> 16);
  }
  y->second = std::move(cut);
  return true;
}

bool round_again(const Call&, NamedTensors& out) {
  const auto y = only_output(out);
  if (y == out.end() || y->second.dtype() != Dtype::f32) return false;
  Tensor rounded(Dtype::bf16, y->second.shape());
  for (Index i = 0; i < rounded.elements(); ++i) {
    rounded.as<BF16>()[i] = encode<kBF16>(y->second.as<float>()[i]);
  }
  y->second = std::move(rounded);
  return true;
}

bool round_by_f16(const Call&, NamedTensors& out) {
  const auto y = only_output(out);
  if (y == out.end() || y->second.dtype() != Dtype::f32) return false;
  Tensor rounded(Dtype::bf16, y->second.shape());
  for (Index i = 0; i < rounded.elements(); ++i) {
    const float half = decode(encode<kF16>(y->second.as<float>()[i], Overflow::nonfinite));
    rounded.as<BF16>()[i] = encode<kBF16>(half);
  }
  y->second = std::move(rounded);
  return true;
}

bool bf16_product(const Call& call) {
  return product_of(call).has_value() && call.set.text("out", "bf16") == "bf16";
}

void add_from_f32(std::vector<Hypothesis>& list, std::string name, std::string phrase,
                  Rewrite rewrite) {
  list.push_back({std::move(name), std::move(phrase), Stage::output,
                  [](Call& c) {
                    c.set.set("out", "f32");
                    return true;
                  },
                  std::move(rewrite)});
}

/// y = bf16(bf16(silu(a)) * b), as eager torch has it.
bool round_silu(const Call& call, NamedTensors& out) {
  const auto y = out.find("y");
  if (call.op != "swiglu" || call.has("probs") || y == out.end()) return false;
  const Tensor& x = call.input("x");
  const Index columns = y->second.shape().back();
  for (Index i = 0; i < y->second.elements(); ++i) {
    const Index r = i / columns;
    const float a = wide_value(x, r * 2 * columns + i % columns);
    const float b = wide_value(x, r * 2 * columns + columns + i % columns);
    const float v = decode(encode<kBF16>(a * sigmoid_rn(a))) * b;
    store_wide(y->second, i, v);
  }
  return true;
}

/// What e4m3fnuz makes of codes of e4m3, but for those that are NaN there.
bool halve(const Call& call, NamedTensors& out) {
  const auto x = out.find("x");
  if (call.op != "dequantize" || x == out.end()) return false;
  for (Index i = 0; i < x->second.elements(); ++i) {
    if (x->second.dtype() == Dtype::bf16) {
      BF16& element = x->second.as<BF16>()[i];
      element = encode<kBF16>(0.5f * decode(element));
    } else if (x->second.dtype() == Dtype::f32) {
      x->second.as<float>()[i] *= 0.5f;
    }
  }
  return true;
}

/// Codes of scaling_aware_transpose [K, M] as they are in the rows of x [M, K].
bool keep_exponents(const Call& call, NamedTensors& out) {
  const auto to = out.find("codes");
  if (call.op != "scaling_aware_transpose" || to == out.end() || !call.has("codes")) return false;
  const Tensor& from = call.input("codes");
  if (from.rank() != 2 || from.bytes() != to->second.bytes()) return false;
  const Index rows = from.extent(0);
  for (Index i = 0; i < from.elements(); ++i) {
    to->second.as<std::uint8_t>()[i] =
        from.as<std::uint8_t>()[i % rows * from.extent(1) + i / rows];
  }
  return true;
}

/// Rows between groups that hold the rows of x that follow, instead of zeros.
bool leave_padding(const Call& call, NamedTensors& out) {
  if (call.op != "pad_groups") return false;
  const Tensor& x = call.input("x");
  const Tensor& ends = call.input("group_ends");
  Tensor& y = out.find("y")->second;
  const auto* starts = out.find("padded_starts")->second.as<std::int32_t>();
  const auto* padded = out.find("padded_ends")->second.as<std::int32_t>();
  if (x.extent(0) == 0) return false;
  const std::size_t row = x.bytes() / static_cast<std::size_t>(x.extent(0));
  Index begin = 0;
  for (Index g = 0; g < ends.elements(); ++g) {
    const Index end = ends.as<std::int32_t>()[g];
    for (Index r = starts[g] + end - begin; r < padded[g]; ++r) {
      const Index from = begin + r - starts[g];
      if (from >= x.extent(0)) continue;
      std::memcpy(y.data() + static_cast<std::size_t>(r) * row,
                  x.data() + static_cast<std::size_t>(from) * row, row);
    }
    begin = end;
  }
  return true;
}

}  // namespace

void add_output_hypotheses(const Call& call, std::vector<Hypothesis>& list) {
  if (bf16_product(call)) {
    add_from_f32(list, "out=truncated", "the output is truncated to bf16 rather than rounded",
                 truncate);
    add_from_f32(list, "out=twice", "the sum is rounded to f32 before it is rounded to bf16",
                 round_again);
    add_from_f32(list, "out=f16", "the sum is rounded to f16 before it is rounded to bf16",
                 round_by_f16);
  }
  add(list, "silu=bf16", "silu is rounded to bf16 before it is multiplied", round_silu);
  add(list, "value.power_of_2", "every value is multiplied by 2^-1", halve);
  add(list, "codes=not_moved", "codes are transposed, and their exponents are not moved",
      keep_exponents);
  add(list, "padding=stale", "padding rows hold the rows that follow instead of zeros",
      leave_padding);
}

}  // namespace mxo
