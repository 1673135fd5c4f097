// Other values of the parameters of a call: in which words, of which calls, and what comes of them.
#include <algorithm>
#include <map>

#include "formats/scale_rules.h"
#include "golden/explain/hypotheses.h"
#include "tests/golden/planted.h"

namespace mxo {
namespace {

using Settings = std::map<std::string, std::string, std::less<>>;

std::vector<Hypothesis> settings_of(const std::string& op, const Settings& set) {
  std::vector<Hypothesis> list;
  const Call call{op, {}, Parameters(set)};
  add_rule_hypotheses(call, list);
  add_setting_hypotheses(call, list);
  return list;
}

struct Listed {
  const char* op;
  Settings set;
  const char* name;
  const char* phrase;  ///< empty: there is none; of a name that ends with '=', none that begins so
  std::vector<const char*> keys = {};  ///< that take its value
};

const Listed kListed[] = {
    {"quantize", {}, "scale_mode=floor", "the scales are FLOOR rather than RCEIL", {"scale_mode"}},
    {"quantize",
     {{"scale_mode", "even"}},
     "scale_mode=ceil",
     "the scales are CEIL rather than EVEN",
     {"scale_mode"}},
    {"quantize", {{"scale_mode", "floor"}}, "scale_mode=floor", ""},
    {"dequantize", {}, "scale_mode=", ""},
    {"dequantize",
     {{"format", "e5m2"}},
     "format=e4m3fnuz",
     "the codes are taken as e4m3fnuz rather than e5m2",
     {"format"}},
    {"grouped_matmul", {}, "format_x=e5m2", "x is taken as e5m2 rather than e4m3", {"format_x"}},
    {"grouped_matmul", {}, "format_w=e5m2", "w is taken as e5m2 rather than e4m3", {"format_w"}},
    {"grouped_matmul_wgrad",
     {},
     "format_dy=e5m2",
     "dy is taken as e5m2 rather than e4m3",
     {"format_dy"}},
    {"grouped_matmul", {}, "format=e5m2", "both sides are taken as e5m2", {"format_x", "format_w"}},
    {"grouped_matmul_wgrad",
     {},
     "format=e5m2",
     "both sides are taken as e5m2",
     {"format_x", "format_dy"}},
    {"grouped_matmul", {{"format_w", "e5m2"}}, "format=e5m2", ""},
    {"quantize", {}, "rule=vllm", "scales follow the rule vllm rather than torchao", {"rule"}},
    {"quantize",
     {{"rule", "te"}},
     "rule=torchao",
     "scales follow the rule torchao rather than te",
     {"rule"}},
    {"quantize", {{"rule", "te"}}, "rule=te", ""},
    {"dequantize", {}, "rule=", ""},
    {"quantize", {}, "block=32x1", "blocks are 32x1 rather than 1x32", {"block"}},
    {"quantize", {{"block", "1xK"}}, "block=Rx1", "blocks are Rx1 rather than 1xK", {"block"}},
    {"quantize", {{"block", "Rx1"}}, "block=1xK", "blocks are 1xK rather than Rx1", {"block"}},
    {"quantize", {{"block", "128x128"}}, "block=", ""},
    {"quantize", {{"block", "RxK"}}, "block=", ""},
    {"quantize", {{"block", "per_token"}}, "block=", ""},
    {"cast", {}, "block=", ""},
    {"pad_groups", {}, "alignment=8", "alignment is 8", {"alignment"}},
    {"pad_groups", {{"alignment", "8"}}, "alignment=8", ""},
    {"quantize", {{"power_of_2", "up"}}, "power_of_2=none", "power_of_2 is none", {"power_of_2"}},
    {"cast", {}, "power_of_2=", ""},
    {"dispatch",
     {},
     "layout=expert_major_padded",
     "the layout is expert_major_padded rather than rank_major",
     {"layout"}},
    {"route",
     {{"normalize", "false"}},
     "normalize=true",
     "normalize is true rather than false",
     {"normalize"}},
    {"swiglu",
     {{"rounding", "bf16"}},
     "rounding=f16",
     "rounding is f16 rather than bf16",
     {"rounding"}},
    {"route", {}, "group_score=best", "group_score is best rather than two_best", {"group_score"}},
};

class SettingsListed : public testing::TestWithParam<Listed> {};
INSTANTIATE_TEST_SUITE_P(All, SettingsListed, testing::ValuesIn(kListed));
TEST_P(SettingsListed, AreInWordsAndTakeTheirValue) {
  const Listed& row = GetParam();
  const auto list = settings_of(row.op, row.set);
  const std::string name = row.name;
  const auto at = std::find_if(list.begin(), list.end(), [&](const Hypothesis& h) {
    return name.ends_with('=') ? h.name.starts_with(name) : h.name == name;
  });
  ASSERT_EQ(at == list.end(), row.keys.empty()) << name;
  if (row.keys.empty()) return;
  EXPECT_EQ(at->phrase, row.phrase);
  Call call{row.op, {}, Parameters(row.set)};
  // Codes that have a type are bytes to who takes them for another.
  call.replace("x.codes", Tensor(Dtype::e4m3, {2, 32}));
  ASSERT_TRUE(at->alter(call));
  EXPECT_EQ(call.input("x.codes").dtype(), name.starts_with("format") ? Dtype::u8 : Dtype::e4m3);
  for (const char* key : row.keys)
    EXPECT_EQ(call.set.text(key, ""), name.substr(name.find('=') + 1));
}

}  // namespace
}  // namespace mxo
