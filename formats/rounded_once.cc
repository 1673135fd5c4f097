// Products and quotients for sources of users whose compiler does not reveal its flags.
#include "formats/rounded_once.h"

namespace mxo::library {

float mul_rn(float a, float b) { return a * b; }
float div_rn(float a, float b) { return a / b; }
double div_rn(double a, double b) { return a / b; }

}  // namespace mxo::library
