// What is seen of operands where a cause of a list holds, in rows.
#pragma once

#include <gtest/gtest.h>

#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "tests/golden/operands_where.h"
#include "tests/golden/small_bench.h"
#include "tests/golden/small_products.h"
#include "tests/golden/tensors.h"

namespace mxo {

using Numbers = std::vector<double>;

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
