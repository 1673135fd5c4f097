// Stands in where oneDNN is not installed.
#include "bench/rival_onednn.h"

namespace mxo::bench {

bool have_onednn() { return false; }
void onednn_matmul(const BF16*, const BF16*, BF16*, Index, Index, Index) {}

}  // namespace mxo::bench
