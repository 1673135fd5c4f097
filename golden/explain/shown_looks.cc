// What outputs look like: one order or function of all of them, or factors and maps of many.
#include <algorithm>
#include <map>
#include <optional>

#include "golden/explain/compared_outputs.h"
#include "golden/explain/find/output/recover.h"
#include "golden/explain/find/product/blocks.h"
#include "golden/explain/score.h"
#include "golden/explain/settled.h"
#include "golden/explain/shown.h"

namespace mxo {
namespace {

constexpr Index kFewLooks = 4;  ///< one in so many of what is unknown

/// Whether elements that are expected to be equal came equal, as far as some that differ show: if
/// not, no function of the values gives them, and recover_mapped() need not try many.
bool follows_from_values(const Output& output) {
  Index seen = 0;
  std::map<std::uint64_t, std::uint64_t> came;
  for (std::size_t i = 0; i < output.marks.size() && seen < 4096; ++i) {
    if (output.marks[i] != Mark::differs) continue;
    ++seen;
    const auto at = static_cast<Index>(i);
    const auto [known, first] = came.emplace(output.wanted(at), output.came(at));
    if (!first && known->second != output.came(at)) return false;
  }
  return true;
}

/// Codes that differ in blocks whose scale differs, too, set aside as long as it lives.
class CodesOfOtherScales {
 public:
  CodesOfOtherScales(const Call& call, std::vector<Output>& outputs) {
    const auto named = [&](std::string_view name) {
      return std::find_if(outputs.begin(), outputs.end(),
                          [name](const Output& o) { return o.name == name; });
    };
    const auto codes = named("codes");
    const auto scales = named("scales");
    if (codes == outputs.end() || scales == outputs.end() || scales->differing == 0) return;
    const std::optional<Blocks> blocks = blocks_of(call, *codes, *scales->expected);
    if (!blocks) return;
    codes_ = &*codes;
    for (Index i = 0; i < codes_->owed * codes_->columns; ++i) {
      const Index s = blocks->scale_of(i);
      if (codes_->marks[static_cast<std::size_t>(i)] != Mark::differs || s < 0 ||
          scales->marks[static_cast<std::size_t>(s)] == Mark::same)
        continue;
      codes_->settle(i);
      aside_.push_back(i);
    }
  }
  ~CodesOfOtherScales() {
    for (const Index i : aside_) codes_->marks[static_cast<std::size_t>(i)] = Mark::differs;
    if (codes_ != nullptr) codes_->left += static_cast<Index>(aside_.size());
  }
  CodesOfOtherScales(const CodesOfOtherScales&) = delete;
  CodesOfOtherScales& operator=(const CodesOfOtherScales&) = delete;

 private:
  Output* codes_ = nullptr;
  std::vector<Index> aside_;
};

}  // namespace

bool is_patchwork(const std::vector<Claim>& claims, Index left) {
  if (claims.empty()) return false;
  return claims.size() > 1 || left > 0 || claims.front().yields;
}

std::vector<Claim> shown_as_one_order(std::vector<Output>& outputs) {
  std::vector<Output*> wrong;
  for (Output& o : outputs) {
    if (o.left > 0) wrong.push_back(&o);
  }
  if (wrong.size() != 1) return {};
  for (const auto& recovered : {recover_order, recover_axes, recover_mapped}) {
    if (recovered == recover_mapped && !follows_from_values(*wrong.front())) continue;
    std::vector<Claim> claims = named_by(outputs, [&] { return recovered(*wrong.front()); });
    const bool all = wrong.front()->left == 0 && claims.size() == 1;
    if (all && claims.front().kind == Kind::cause) return claims;
    Settled::forget(outputs);
  }
  return {};
}

void show_looks(const Call& call, std::vector<Output>& outputs, std::vector<Claim>& claims) {
  const CodesOfOtherScales aside(call, outputs);
  for (const auto& recovered : {recover_factors, recover_mapped, recover_scaled}) {
    const Index before = left_of(outputs);
    for (Output& o : outputs) {
      if (o.left == 0) continue;
      const std::vector<Mark> marks = o.marks;
      const Index left = o.left;
      std::vector<Claim> more = named_by(outputs, [&] { return recovered(o); });
      if ((before - left_of(outputs)) * kFewLooks < before) {
        o.marks = marks;
        o.left = left;
      } else {
        append(claims, std::move(more));
      }
    }
  }
}

}  // namespace mxo
