// Sums of every machine and in every order against their certified bound.
#pragma once

#include <numeric>
#include <random>
#include <set>

#include "golden/judge/bound.h"
#include "golden/judge/elements.h"
#include "golden/judge/rounding_cell.h"
#include "golden/museum/operands.h"
#include "ops/sums.h"
#include "tests/golden/expected.h"
#include "tests/support/random_tensors.h"

namespace mxo {

/// Sums that were held against their bound.
struct Held {
  Index sums = 0;
  Index outside = 0;
  double nearest = 0;  ///< largest error as a part of what is allowed
  std::string worst;   ///< what was furthest outside
  std::set<std::string> who;

  void see(double found, const ErrorBound& bound, Index i, Dtype out, const std::string& what) {
    const auto at = static_cast<std::size_t>(i);
    if (!std::isfinite(bound.exact[at]) || !bound.promises(i)) return;
    ++sums;
    who.insert(what);
    const RoundingCell cell = rounding_cell(out, found);
    const double room = bound.stray[at] + std::max(cell.high - found, found - cell.low);
    const double part = std::isinf(found) ? 0 : std::fabs(found - bound.exact[at]) / room;
    if (!bound.admits(i, out, found)) ++outside;
    if (part > nearest) worst = what;
    nearest = std::max(nearest, part);
  }
  void see(const Tensor& found, const ErrorBound& bound, const std::string& what) {
    const ElementReader read(found.dtype());
    for (Index i = 0; i < found.elements(); ++i)
      see(read(bits_at(found, i)).value, bound, i, found.dtype(), what);
  }
};

/// Operands of a kind, 64 x 64 outputs of `k` products; `small`: results near the least numbers.
inline Call operands_of_kind(Backend& b, OperandKind kind, Index k, std::uint64_t seed,
                             bool small) {
  const ProductSize size{{40, 64}, 64, 64, k};
  const bool fnuz = kind == OperandKind::fp8_fnuz || kind == OperandKind::mx_fnuz;
  Call call;
  if (kind == OperandKind::mx || kind == OperandKind::mx_fnuz) {
    call = mx_product(b, seed, size);
  } else if (kind == OperandKind::fp8 || kind == OperandKind::fp8_fnuz) {
    call = k % 256 == 128 ? blockwise_product(b, seed, size) : rowwise_product(b, seed, size);
  } else {
    call = bf16_product(seed, size);
  }
  for (const char* side : {"x", "w"}) {
    const std::string codes = std::string(side) + ".codes";
    const std::string scales = std::string(side) + ".scales";
    if (call.has(codes)) {
      Tensor t = call.input(codes);
      t.reinterpret_as(Dtype::u8);
      call.replace(codes, std::move(t));
      if (fnuz) call.set.set("format_" + std::string(side), "e4m3fnuz");
      Tensor s = call.input(scales);
      for (Index i = 0; small && i < s.elements(); ++i) {
        if (s.dtype() == Dtype::f32) s.as<float>()[i] *= 0x1p-68f;
        if (s.dtype() != Dtype::f32) s.as<std::uint8_t>()[i] -= 68;
      }
      call.replace(scales, std::move(s));
      continue;
    }
    const Tensor& plain = call.input(side);
    Tensor t(kind == OperandKind::f16 ? Dtype::f16 : Dtype::bf16, plain.shape());
    for (Index i = 0; i < t.elements(); ++i) {
      const float v = decode(plain.as<BF16>()[i]) * (small ? 0x1p-68f : 1.0f);
      test::put(t, i, v);
    }
    call.replace(side, std::move(t));
  }
  return call;
}

inline std::string name_of(const SumRow& row) {
  return std::string(row.name) + " " + std::string(row.operands);
}

/// One product by the machine of `row`, if it takes such operands.
inline void hold_machine(Backend& b, const SumRow& row, Index k, std::uint64_t seed, bool small,
                         Held& held) {
  const OperandKind kind = row.kind == OperandKind::other ? OperandKind::mx : row.kind;
  Call call = operands_of_kind(b, kind, k, seed, small);
  call.set.set("sum", row.name);
  call.set.set("out", seed % 3 == 0 ? "bf16" : "f32");
  const NamedTensors inputs = operands_of(call);
  try {
    const NamedTensors out = run_call(b, call);
    const Tensor& y = out.at("y");
    const auto bound = certified_bound(call.op, "y", inputs, call.set, row.name);
    held.see(y, *bound, name_of(row));
  } catch (const Error& error) {
    if (error.fault() != Fault::unsupported && error.fault() != Fault::argument) throw;
  }
}

/// The sum of terms in some order of f32 additions: a tree drawn by chance.
inline float sum_in_some_order(std::vector<float> terms, std::mt19937_64& random) {
  while (terms.size() > 1) {
    const std::size_t i = random() % terms.size();
    std::swap(terms[i], terms.back());
    const float a = terms.back();
    terms.pop_back();
    terms[random() % 4 == 0 ? terms.size() - 1 : random() % terms.size()] += a;
  }
  return terms.empty() ? 0.0f : terms.front();
}

/// One bf16 product whose outputs are summed in orders of their own, products rounded or fused.
inline void hold_orders(Backend& b, Index k, std::uint64_t seed, bool small, Held& held) {
  const Call call = operands_of_kind(b, OperandKind::bf16, k, seed, small);
  const NamedTensors inputs = operands_of(call);
  const auto bound = certified_bound(call.op, "y", inputs, call.set, "");
  std::mt19937_64 random(seed);
  const BF16* x = call.input("x").as<BF16>();
  const BF16* w = call.input("w").as<BF16>();
  for (Index r = 0; r < 64; ++r) {
    for (Index n = 0; n < 64; ++n) {
      const Index line = ((r >= 40 ? 64 : 0) + n) * k;
      std::vector<Index> order(static_cast<std::size_t>(k));
      std::iota(order.begin(), order.end(), Index{0});
      float sum = 0.0f;
      if (random() % 2 == 0) {
        std::shuffle(order.begin(), order.end(), random);
        for (const Index i : order) sum = std::fma(decode(x[r * k + i]), decode(w[line + i]), sum);
      } else {
        std::vector<float> terms;
        for (const Index i : order) terms.push_back(decode(x[r * k + i]) * decode(w[line + i]));
        sum = sum_in_some_order(std::move(terms), random);
      }
      held.see(static_cast<double>(sum), *bound, r * 64 + n, Dtype::f32, "orders");
    }
  }
}

/// Every machine and orders by chance, one product each.
inline void hold_round(Backend& b, std::uint64_t round, Held& held) {
  const Index depths[] = {32, 96, 128, 160, 384, 512};
  const Index k = depths[round % 6];
  const bool small = round % 4 == 3;
  for (const SumRow& row : sums()) hold_machine(b, row, k, round + 1, small, held);
  hold_orders(b, k, round + 1, small, held);
}

}  // namespace mxo
