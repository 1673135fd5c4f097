// The numbers of the hard cases.
#pragma once

namespace mxo::test {

class GemmCase;

/// Fills codes and scales as the case's CaseFill says.
void fill_operands(GemmCase& gemm);

}  // namespace mxo::test
