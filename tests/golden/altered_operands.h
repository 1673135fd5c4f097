// What is seen of operands where a cause of a list holds, in rows.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "golden/explain/case/wide_values.h"
#include "tests/golden/causes_listed.h"
#include "tests/golden/small_bench.h"
#include "tests/golden/small_products.h"
#include "tests/golden/tensors.h"

namespace mxo {

using Numbers = std::vector<double>;

/// Bytes that count from one number on.
inline Tensor counted_bytes(std::vector<Index> shape, int first) {
  Tensor t(Dtype::u8, std::move(shape));
  for (Index i = 0; i < t.elements(); ++i) {
    t.as<std::uint8_t>()[i] = static_cast<std::uint8_t>(first + i);
  }
  return t;
}

/// f32 that count from one number on.
inline Tensor counted_floats(std::vector<Index> shape, float first) {
  Tensor t(Dtype::f32, std::move(shape));
  for (Index i = 0; i < t.elements(); ++i) t.as<float>()[i] = first + static_cast<float>(i);
  return t;
}

/// Bytes, i32, or elements of a wide type.
inline Numbers plain_numbers(const Tensor& t) {
  Numbers all;
  for (Index i = 0; i < t.elements(); ++i) {
    all.push_back(size_of(t.dtype()) == 1   ? t.as<std::uint8_t>()[i]
                  : t.dtype() == Dtype::i32 ? t.as<std::int32_t>()[i]
                                            : static_cast<double>(wide_value(t, i)));
  }
  return all;
}

/// An operand where a cause holds; nothing where it says nothing of the call.
inline Numbers operand_if(const CausesListed& causes, std::string_view cause,
                          std::string_view operand, std::string_view words = "") {
  const std::optional<Call> other = causes.altered(cause, words);
  return other ? plain_numbers(other->input(operand)) : Numbers{};
}

inline Tensor bytes(std::vector<Index> shape, std::initializer_list<std::uint8_t> values) {
  return tensor_from<std::uint8_t>(Dtype::u8, std::move(shape), values);
}

/// A call of one operand.
inline Call with(const char* op, const char* operand, Tensor t) {
  Call call{op, {}, {}};
  call.replace(operand, std::move(t));
  return call;
}
/// `call` with other operands.
inline Call but(Call call, std::initializer_list<std::pair<const char*, Tensor>> operands) {
  for (const auto& [name, tensor] : operands) call.replace(name, tensor);
  return call;
}
inline Call without(Call call, const char* name) {
  call.inputs.erase(name);
  return call;
}

inline std::string written(const Numbers& numbers) {
  std::ostringstream text;
  text.precision(17);
  for (const double n : numbers) text << (text.tellp() > 0 ? " " : "") << n;
  return text.str();
}

/// What is seen of an operand (that whose name the cause begins with) where a cause holds; nothing
/// where no such cause is there, or says nothing of the call.
struct SeenOperand {
  const char* cause;
  const char* phrase;
  std::string seen;
  const char* operand = nullptr;
};

inline void expect_seen(CausesListed::Adds adds, const Call& call,
                        const std::vector<SeenOperand>& rows) {
  const CausesListed causes(call, adds);
  for (const SeenOperand& row : rows) {
    const std::string_view cause = row.cause;
    const std::string_view own = cause.substr(0, cause.find_first_of("=+-"));
    EXPECT_EQ(written(operand_if(causes, cause, row.operand ? row.operand : own, row.phrase)),
              row.seen)
        << cause << ": " << row.phrase;
  }
}

/// No such cause is there, or it says nothing of the call.
inline void expect_none(CausesListed::Adds adds, const Call& call, const char* cause,
                        const char* phrase = "") {
  EXPECT_FALSE(CausesListed(call, adds).altered(cause, phrase)) << cause << ": " << phrase;
}

}  // namespace mxo
