// erf and tanh for units that others compile with flags they do not tell us.
#include "formats/erf.h"

namespace mxo::library {

float erf_rn(float x) { return mxo::erf_rn(x); }
float tanh_rn(float x) { return mxo::tanh_rn(x); }

}  // namespace mxo::library
