// What the altered calls behind claims give of the outputs, once the claims are made.
#include "golden/explain/finders.h"

#include <algorithm>
#include <optional>

#include "golden/explain/confirm/altered_call_runner.h"
#include "golden/explain/find/finding.h"
#include "golden/explain/find/output/recover.h"
#include "golden/explain/words/places.h"

namespace mxo {
namespace {

constexpr std::size_t kMostKept = 4;  ///< outputs that are named one by one
constexpr double kNearlyAll = 0.9;    ///< of what is explained, beside which the rest is chance

/// The outputs of the altered call that a claim is of; none where it is of no such call.
std::optional<NamedTensors> made_by(const Case& c, const Claim& claim) {
  std::vector<const Hypothesis*> altered;
  Call call = c.call;
  for (const Hypothesis& h : claim.made_by) {
    if (!h.alter(call)) return std::nullopt;
    altered.push_back(&h);
  }
  if (altered.empty()) return std::nullopt;
  return outputs_under(c.backend, call, altered);
}

}  // namespace

void count_each(const Case& c, std::vector<Claim>& claims) {
  for (Claim& claim : claims) {
    if (left_of(c.outputs) == 0) return;
    const std::optional<NamedTensors> made = made_by(c, claim);
    Index in_all = 0;   // given, where more are than was claimed
    Index of_them = 0;  // altered
    std::string place;  // that holds all that is given, and of what is altered nothing else
    for (Output& o : c.outputs) {
      if (!made || !made->contains(o.name) || o.left == 0) continue;
      const Tensor& model = made->at(o.name);
      if (model.bytes() != o.expected->bytes()) continue;
      const auto is_altered = [&](Index i) { return bits_at(model, i) != o.expected_bits(i); };
      const auto is_given = [&](Index i) {
        return is_altered(i) && bits_at(model, i) == o.actual_bits(i);
      };
      Index altered = 0;
      Index right = 0;
      std::vector<Index> given;
      for (Index i = 0; i < compared(o); ++i) {
        altered += is_altered(i);
        right += is_altered(i) && nth(o.marks, i) == Mark::same;
        if (is_given(i)) given.push_back(i);
      }
      if (right * 100 > altered || std::ssize(given) * 10 < altered * 9) continue;
      const Index before = o.left;
      for (const Index i : given) o.mark_explained(i);
      if (o.left == before) continue;
      claim.elements += static_cast<double>(before - o.left);
      in_all += std::ssize(given);
      of_them += altered;
      const Place all = place_of(o, is_given);
      const bool is_place = std::ranges::all_of(all.rows, [&](Index r) {
        return std::ranges::all_of(all.columns, [&](Index column) {
          const Index i = r * o.columns + column;
          return !is_altered(i) || is_given(i);
        });
      });
      place = is_place && claim.where.tensor == o.name ? all.words : "";
      claim.where = is_place ? all.where : Where{claim.where.tensor, {}, {}, {}, {}};
    }
    if (in_all == 0) continue;
    Hypotheses causes;
    for (const Hypothesis& h : claim.made_by) causes.push_back(&h);
    claim.sentence = phrase_of(causes) + ", in " +
                     (place.empty() ? std::to_string(in_all) + " of the " +
                                          std::to_string(of_them) + " elements that it alters"
                                    : place);
  }
}

void keep_call_alone(const Case& c, std::vector<Claim>& claims) {
  if (claims.size() < 2) return;
  const auto most = std::ranges::max_element(claims, {}, &Claim::elements);
  double all = 0.0;
  for (const Claim& claim : claims) all += claim.elements;
  if (most->elements < kNearlyAll * all) return;
  std::optional<NamedTensors> made = made_by(c, *most);
  if (!made) return;
  for (const Output& o : c.outputs) {
    if (!made->contains(o.name)) return;
    Tensor& model = made->at(o.name);
    resize_rows(model, *o.expected);
    if (model.bytes() != o.expected->bytes()) return;
    for (Index i = 0; i < compared(o); ++i) {
      if (nth(o.marks, i) == Mark::explained && bits_at(model, i) != o.actual_bits(i)) return;
    }
  }
  most->elements = all;
  claims = {std::move(*most)};
}

void name_by_fewest_causes(const Case& c, std::vector<Claim>& claims) {
  const auto is_pair = [](const Claim& claim) { return claim.made_by.size() > 1; };
  if (claims.size() < 2 || std::ranges::none_of(claims, is_pair)) return;
  const auto gives = [](const NamedTensors& made, const Output& o, Index i) {
    const auto at = made.find(o.name);
    if (at == made.end() || at->second.bytes() != o.expected->bytes()) return false;
    return nth(o.marks, i) == Mark::explained && bits_at(at->second, i) == o.actual_bits(i);
  };
  for (Claim& claim : claims) {
    const std::optional<NamedTensors> made = made_by(c, claim);
    if (!made) continue;
    const auto tells_all = [&](const Claim& other) {
      const std::optional<NamedTensors> more = made_by(c, other);
      bool any = false;
      for (const Output& o : c.outputs) {
        for (Index i = 0; i < compared(o) && more; ++i) {
          if (!gives(*made, o, i)) continue;
          any = true;
          if (!gives(*more, o, i)) return false;
        }
      }
      return any;
    };
    for (const Claim& other : claims) {
      if (&other == &claim || !is_pair(other)) continue;
      for (const Hypothesis& h : other.made_by) {
        Claim one = claim;
        one.made_by = {h};
        if (h.name == claim.id || !tells_all(one)) continue;
        one.id = h.name;
        one.sentence = h.phrase;
        for (const Output& o : c.outputs) {
          const Place place = place_of(o, [&](Index i) { return gives(*made, o, i); });
          if (place.elements > 0)
            one.sentence += (one.sentence == h.phrase ? ", in " : " and ") + place.words;
        }
        claim = std::move(one);
        break;
      }
    }
  }
}

std::string kept_elsewhere(const Case& c, const Claim& claim) {
  if (c.outputs.size() == c.expected.size()) return {};
  const std::optional<NamedTensors> made = made_by(c, claim);
  if (!made) return {};
  std::vector<std::string> kept;
  for (const auto& [name, model] : *made) {
    const auto want = c.expected.find(name);
    const auto came = c.actual.find(name);
    const bool other = output_named(c.outputs, name) == nullptr;
    if (want == c.expected.end() || came == c.actual.end() || !other) continue;
    const auto differs = [&, &name = name](const Tensor& t) {
      return t.bytes() != want->second.bytes() ||
             make_output(c.call, name, want->second, t).differing > 0;
    };
    if (!differs(came->second) && differs(model)) kept.push_back(name);
  }
  if (kept.empty()) return {};
  std::string words;
  const std::size_t told = kept.size() > kMostKept ? kMostKept - 1 : kept.size();
  for (std::size_t i = 0; i < told; ++i) {
    const bool last = i + 1 == kept.size();
    words += (i == 0 ? "" : last ? " and " : ", ") + kept[i];
  }
  if (told < kept.size()) words += " and " + std::to_string(kept.size() - told) + " more outputs";
  return ", but " + words + (kept.size() > 1 ? " are" : " is") + " as expected";
}

bool follows_from_calls(const Case& c, const std::vector<Claim>& claims, const Output& output) {
  return std::any_of(claims.begin(), claims.end(), [&](const Claim& claim) {
    const std::optional<NamedTensors> made = made_by(c, claim);
    if (!made || !made->contains(output.name)) return false;
    const Tensor& model = made->at(output.name);
    return model.elements() == output.actual->elements() &&
           model.dtype() == output.expected->dtype() &&
           make_output(c.call, output.name, model, *output.actual).differing == 0;
  });
}

}  // namespace mxo
