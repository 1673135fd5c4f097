// Approximate functions on every float there is, against the instructions themselves.
#include "tests/cuda/approximate_functions.h"
#include "tests/cuda/twin.h"

namespace mxo {
namespace {

class CudaApproximate : public test::OnDevice {};

TEST_F(CudaApproximate, EveryFloatIsTheInstructions) {
  using test::Approximate;
  for (const Approximate f :
       {Approximate::rcp_ftz, Approximate::rsqrt_ftz, Approximate::sqrt_ftz, Approximate::ex2_ftz,
        Approximate::rcp, Approximate::rsqrt, Approximate::sqrt, Approximate::ex2,
        Approximate::lg2_ftz, Approximate::lg2, Approximate::tanh}) {
    EXPECT_EQ(test::differing(f), 0) << "function " << static_cast<int>(f);
  }
}

TEST_F(CudaApproximate, RandomQuotientsAreTheInstructions) {
  EXPECT_EQ(test::differing_quotients(std::int64_t{1} << 30), 0);
}

}  // namespace
}  // namespace mxo
