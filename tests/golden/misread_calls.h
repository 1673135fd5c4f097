// Calls of which parts are misread, their sums, and what is said of them.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "golden/explain/find/product/finders.h"
#include "tests/support/random_tensors.h"

namespace mxo::misread_calls {

/// Bytes from `first` on, so many of them, in no order.
inline Tensor random_bytes(std::vector<Index> shape, int first, unsigned many, std::uint64_t seed) {
  Tensor t(Dtype::u8, std::move(shape));
  test::Random random(seed);
  for (Index i = 0; i < t.elements(); ++i) {
    t.as<std::uint8_t>()[i] =
        static_cast<std::uint8_t>(first + static_cast<int>(random.word() % many));
  }
  return t;
}

/// Codes of both signs.
inline Tensor random_codes(std::vector<Index> shape, std::uint64_t seed) {
  Tensor t = random_bytes(std::move(shape), 0x28, 24, seed);
  test::Random random(seed + 1);
  for (Index i = 0; i < t.elements(); ++i) {
    if (random.word() % 2 == 0) t.as<std::uint8_t>()[i] ^= 0x80;
  }
  return t;
}

struct PartShape {
  std::vector<std::int32_t> ends{5, 12};
  Index rows = 12;
  Index n = 24;
  Index k = 96;
};

/// x [rows, k] and w [groups, n, k] of e4m3, with a byte for every 32 of them.
inline Call mx_call(const PartShape& s = {}) {
  const auto groups = static_cast<Index>(s.ends.size());
  Call call{"grouped_matmul", {}, {}};
  call.replace("x.codes", random_codes({s.rows, s.k}, 1));
  call.replace("x.scales", random_bytes({s.rows, ceil_div(s.k, 32)}, 124, 6, 3));
  call.replace("w.codes", random_codes({groups, s.n, s.k}, 5));
  call.replace("w.scales", random_bytes({groups, s.n, ceil_div(s.k, 32)}, 124, 6, 7));
  call.replace("group_ends", test::group_ends_of(s.ends));
  return call;
}

/// The same of dy [rows, 12] and x [rows, n], along the rows of groups.
inline Call mx_gradient_call(const std::vector<std::int32_t>& ends, Index rows, Index n = 24) {
  Call call{"grouped_matmul_wgrad", {}, {}};
  call.replace("dy.codes", random_codes({rows, 12}, 1));
  call.replace("dy.scales", random_bytes({ceil_div(rows, 32), 12}, 124, 6, 3));
  call.replace("x.codes", random_codes({rows, n}, 5));
  call.replace("x.scales", random_bytes({ceil_div(rows, 32), n}, 124, 6, 7));
  call.replace("group_ends", test::group_ends_of(ends));
  return call;
}

/// Every sum of a call.
inline Tensor sums(const Call& call, Dtype type = Dtype::f32) {
  const Product p = *product_of(call);
  Tensor y = p.wgrad ? Tensor(type, {p.groups(), p.a_lines, p.n}) : Tensor(type, {p.a_lines, p.n});
  for (Index g = 0; g < p.groups(); ++g) {
    for (Index i = p.first_line(g); i < p.last_line(g); ++i) {
      const auto a = p.line_a(g, i);
      for (Index j = 0; j < p.n; ++j) {
        const auto b = p.line_b(g, j);
        double sum = 0.0;
        for (std::size_t d = 0; d < a.size(); ++d) sum += a[d] * b[d];
        test::put(y, p.output_row(g, i) * p.n + j, static_cast<float>(sum));
      }
    }
  }
  return y;
}

/// `call` with operand `name` edited: edit(copy, given).
using Edit = std::function<void(std::uint8_t* to, const std::uint8_t* given)>;
inline Call edited(const Call& call, const std::string& name, const Edit& edit) {
  Call other = call;
  Tensor t = call.input(name);
  edit(t.as<std::uint8_t>(), call.input(name).as<std::uint8_t>());
  other.replace(name, std::move(t));
  return other;
}

inline std::vector<Hypothesis> misread(const Call& call, const Tensor& expected,
                                       const Tensor& actual) {
  std::vector<Hypothesis> list;
  const Product p = *product_of(call);
  add_misread_parts(call, make_output(call, p.output, expected, actual), list);
  return list;
}

/// The names and phrases of what is said of `call` where it came as `other`, by its sums, and only
/// what gives them exactly.
inline std::string said(const Call& call, const Call& other, Dtype type = Dtype::f32) {
  const Tensor actual = sums(other, type);
  std::string text;
  for (const Hypothesis& h : misread(call, sums(call, type), actual)) {
    Call altered = call;
    if (!h.alter(altered)) ADD_FAILURE() << h.name;
    EXPECT_EQ(h.stage, Stage::input);
    const Tensor made = sums(altered, type);
    if (!std::equal(made.data(), made.data() + made.bytes(), actual.data())) continue;
    text += (text.empty() ? "" : " | ") + h.name + ": " + h.phrase;
  }
  return text.empty() ? "nothing" : text;
}

}  // namespace mxo::misread_calls
