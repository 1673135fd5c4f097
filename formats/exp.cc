// exp and the logistic function for units that others compile with flags they do not tell us.
#include "formats/exp.h"

#include "formats/softplus.h"

namespace mxo::library {

DoublePair exp_pair(double x) { return mxo::exp_pair(x); }
float sigmoid_rn(float x) { return mxo::sigmoid_rn(x); }
float log1p_rn(float x) { return mxo::log1p_rn(x); }

}  // namespace mxo::library
