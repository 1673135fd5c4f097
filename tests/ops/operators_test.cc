// What is generated from the list of operators: the answer to those that lack one, and forwarding.
#include "ops/operators.h"

#include <gtest/gtest.h>

#include "formats/error.h"
#include "ops/forwarding_backend.h"

namespace mxo {
namespace {

/// Runs nothing.
class Bare : public Backend {
 public:
  std::string_view name() const override { return "bare"; }
  bool honours(const Accumulation&) const override { return false; }
};

/// The message of running an operator whose members nobody reads.
template <typename Op>
std::string refusal(Backend& backend) {
  alignas(std::max_align_t) static const std::byte nothing[1]{};
  try {
    Checked::run(backend, reinterpret_cast<const Op&>(nothing));
  } catch (const Error& error) {
    EXPECT_EQ(error.fault(), Fault::unsupported);
    return error.what();
  }
  return "it ran";
}

TEST(Operators, ABareBackendLacksEachByName) {
  Bare bare;
#define MXO_EXPECT(Op, name) \
  EXPECT_TRUE(refusal<Op>(bare).starts_with("bare: " name " is not available")) << name;
  MXO_OPERATORS(MXO_EXPECT)
#undef MXO_EXPECT
}

}  // namespace
}  // namespace mxo
