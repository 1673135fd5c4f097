// The families of cases; each is one file of this folder.
#pragma once

#include <vector>

#include "golden/suites/suites.h"

namespace mxo {

std::vector<SuiteCase> formats_cases(int level);
std::vector<SuiteCase> quantize_cases(int level);
std::vector<SuiteCase> f32_scales_cases(int level);
std::vector<SuiteCase> layouts_cases(int level);
std::vector<SuiteCase> products_cases(int level);
std::vector<SuiteCase> movement_cases(int level);
std::vector<SuiteCase> linear_cases(int level);
std::vector<SuiteCase> route_cases(int level);
std::vector<SuiteCase> exchange_cases(int level);
std::vector<SuiteCase> activation_cases(int level);
std::vector<SuiteCase> approximate_cases(int level);
std::vector<SuiteCase> transpose_cases(int level);
std::vector<SuiteCase> moe_layer_cases(int level);
std::vector<SuiteCase> poison_cases(int level);
std::vector<SuiteCase> huge_cases(int level);

}  // namespace mxo
