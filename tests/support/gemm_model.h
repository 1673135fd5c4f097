// What a grouped product must be, told a second time: its formulas over MPFR.
#pragma once

#include "tests/support/big_dot.h"
#include "tests/support/gemm_cases.h"

namespace mxo::test {

/// The bits of every expected output of `gemm` that differ from the twin's, as text; "" if none.

std::string differences_from_exact(GemmCase& gemm, BigSum& sum);
std::string differences_from_fma_chain(GemmCase& gemm);

}  // namespace mxo::test
