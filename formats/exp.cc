// exp and the logistic function for sources of users whose compiler does not reveal its flags.
#include "formats/exp.h"

#include "formats/softplus.h"

namespace mxo::library {

DoublePair exp_pair(double x) { return mxo::exp_pair(x); }
float sigmoid_rn(float x) { return mxo::sigmoid_rn(x); }
float log1p_rn(float x) { return mxo::log1p_rn(x); }

}  // namespace mxo::library
