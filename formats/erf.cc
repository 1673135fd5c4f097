// erf and tanh for sources of users whose compiler does not reveal its flags.
#include "formats/erf.h"

namespace mxo::library {

float erf_rn(float x) { return mxo::erf_rn(x); }
float tanh_rn(float x) { return mxo::tanh_rn(x); }

}  // namespace mxo::library
