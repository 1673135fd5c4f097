// Ten million random dots of every model, specials included.
#include "tests/support/models_agree.h"

namespace mxo::test {
namespace {

class SumsModelsAtLength : public testing::TestWithParam<SumRow> {};

TEST_P(SumsModelsAtLength, GiveTheScalarEnginesBitsOnTenMillionDots) {
  expect_models_agree(GetParam(), 1000, 10000000);
}

INSTANTIATE_TEST_SUITE_P(Machines, SumsModelsAtLength, testing::ValuesIn(machines()),
                         [](const auto& row) { return machine_test_name(row.param); });

}  // namespace
}  // namespace mxo::test
