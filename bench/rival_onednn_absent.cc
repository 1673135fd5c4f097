// Stands in where oneDNN is not installed.
#include "bench/rival_onednn.h"

namespace mxo::bench {

bool have_onednn() { return false; }
void onednn_product(const Laid&, const Laid&, BF16*, Index, Index, Index) {}

}  // namespace mxo::bench
