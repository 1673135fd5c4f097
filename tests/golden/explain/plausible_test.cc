// What a trial gives: enough, in a place, and by a cause of its kind.
#include "golden/explain/confirm/altered_call_runner.h"

#include <gtest/gtest.h>

namespace mxo {
namespace {

/// A trial of some rows of an output with four columns: '.' holds nothing that differs, 'g' differs
/// and is given, 'm' differs and is missed, 'b' the model alters though it came right.
struct Made {
  explicit Made(const std::string& rows) {
    VariantMatch c;
    Variant patch;
    for (const char kind : rows) {
      patch.rows.push_back(std::ssize(patch.rows));
      c.seen += kind == 'g' || kind == 'm' ? 4 : 0;
      c.fixed += kind == 'g' ? 4 : 0;
      c.broken += kind == 'm' || kind == 'b' ? 4 : 0;
      c.hits += kind == 'g';
      c.misses += kind == 'm' || kind == 'b';
      c.mask.insert(c.mask.end(), 4, kind == 'g');
    }
    patch.columns = {0, 1, 2, 3};
    add(std::move(patch), std::move(c));
  }
  void add(Variant patch, VariantMatch c) {
    trial.seen += c.seen;
    trial.fixed += c.fixed;
    trial.broken += c.broken;
    trial.patches.push_back(std::move(patch));
    trial.credits.push_back(std::move(c));
  }
  RunResult trial;
};

bool promises(const std::string& rows) { return worth_running(Made(rows).trial); }

std::string repeated(const std::string& text, int times) {
  std::string all;
  for (int i = 0; i < times; ++i) all += text;
  return all;
}

TEST(Plausible, ManyTurnsAreNoPlace) {
  EXPECT_TRUE(promises(repeated("ggggm", 6)));
  EXPECT_FALSE(promises(repeated("ggggm", 7))) << "fourteen turns, and a fifth is missed";
  EXPECT_TRUE(promises(repeated("gggggggggm", 8))) << "nine of ten are given";
}

bool impossible(Target target, const RunResult& trial) {
  Hypothesis h{"id", "", Stage::rule};
  h.target = target;
  return contradicts(h, trial, std::vector<Output>(trial.credits.size()));
}

TEST(Plausible, RulesOfScalesGiveTheScalesThatCame) {
  Made codes("ggm");
  EXPECT_FALSE(impossible(Target::scale_rule, codes.trial)) << "one output only";
  const Made right("..");
  codes.add(right.trial.patches.front(), right.trial.credits.front());
  EXPECT_FALSE(impossible(Target::scale_rule, codes.trial)) << "scales as they came";
  Made others("ggm");
  const Made broken("bb");
  others.add(broken.trial.patches.front(), broken.trial.credits.front());
  EXPECT_TRUE(impossible(Target::scale_rule, others.trial)) << "other scales, and not all codes";
  EXPECT_FALSE(impossible(Target::any, others.trial)) << "no rule of scales";
  Made all("ggg");
  all.add(broken.trial.patches.front(), broken.trial.credits.front());
  EXPECT_FALSE(impossible(Target::scale_rule, all.trial)) << "every code";
  all.trial.credits[0].seen += 1;
  EXPECT_TRUE(impossible(Target::scale_rule, all.trial)) << "every code but one";
  all.trial.credits[1].broken = 1;
  EXPECT_TRUE(impossible(Target::scale_rule, all.trial)) << "one other scale";
}

}  // namespace
}  // namespace mxo
