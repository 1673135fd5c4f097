// Singles, confirmation, places, pairs.
#include "golden/explain/search.h"

#include <algorithm>
#include <cmath>

#include "golden/explain/compared_outputs.h"
#include "golden/explain/plausible.h"
#include "golden/explain/score.h"
#include "golden/explain/settling.h"

namespace mxo {
namespace {

constexpr int kRounds = 4;         ///< causes that take hold of different elements
constexpr double kNear = 3.0;      ///< dB nearer that make a hypothesis part of a pair
constexpr std::size_t kBases = 4;  ///< of pairs

bool better(const Candidate& a, const Candidate& b) {
  if (a.trial.all() != b.trial.all()) return a.trial.all();
  // The same elements may be looked at through one window only: counts can be compared.
  return a.trial.fixed > b.trial.fixed;
}

/// Two of one stage exclude each other, but operands can be misread on both sides.
bool combine(const Hypothesis& a, const Hypothesis& b) {
  if (a.stage != b.stage) return true;
  // Codes and scales of a side are one operand, here.
  const auto side = [](const Hypothesis& h) { return h.subject.substr(0, h.subject.find('.')); };
  if (a.stage == Stage::input) return side(a) != side(b);
  // A rule of scales has a mode of its own.
  if (a.target == Target::scale_rule && b.target == Target::scale_rule) return false;
  return a.stage == Stage::rule && a.subject != b.subject;
}

/// Operands misread in two ways that come to the same are one cause: the first says it best, unless
/// it is the order of K, which either operand may have.  What holds in a part holds in the whole
/// only if it is local.
bool is_another_cause(const Hypothesis& h, const Hypothesis& first) {
  if (h.stage != Stage::input) return true;
  return first.stage == Stage::input && h.local && first.local && h.subject != first.subject;
}

/// Both of a pair have to matter: neither gives as much alone, where the pair was run.
bool both_matter(Bench& bench, const Candidate& pair) {
  return std::all_of(pair.hypotheses.begin(), pair.hypotheses.end(), [&](const Hypothesis* h) {
    const auto alone = bench.run({h});
    return !alone || alone->fixed < pair.trial.fixed;
  });
}

/// The best of those that still fit on a wider window.
std::vector<Claim> settle_best(Bench& bench, std::vector<Candidate>& found) {
  std::stable_sort(found.begin(), found.end(), better);
  if (found.size() > 6) found.resize(6);
  if (bench.windowed()) {
    bench.choose(64, 256);
    std::vector<Candidate> kept;
    for (Candidate& c : found) {
      auto trial = bench.run(c.hypotheses);
      if (!trial || !promising(*trial)) continue;
      kept.push_back({c.hypotheses, std::move(*trial)});
    }
    std::stable_sort(kept.begin(), kept.end(), better);
    found = std::move(kept);
  }
  if (found.empty()) return {};
  // What cannot be told apart on the data shares a sentence.
  std::vector<Claim> claims = settle(bench, found.front());
  if (claims.empty()) return claims;
  int alike = 0;
  for (std::size_t i = 1; i < found.size() && alike < 3; ++i) {
    if (found[i].trial.fixed != found.front().trial.fixed || !found[i].trial.all()) break;
    const Hypothesis& first = *found.front().hypotheses.front();
    if (!is_another_cause(*found[i].hypotheses.front(), first)) continue;
    const std::string phrase = phrase_of(found[i].hypotheses);
    if (claims.front().sentence.find(phrase) != std::string::npos) continue;
    claims.front().sentence += "; as well if " + phrase;
    ++alike;
  }
  return claims;
}

/// Causes known on some lines only: what they explain there stands for the rest.
std::vector<Claim> settle_sampled(Bench& bench, const std::vector<Hypothesis>& list) {
  if (!bench.windowed()) return {};
  for (const Hypothesis& h : list) {
    if (h.only.rows.empty() && h.only.columns.empty()) continue;
    Window window = bench.failing();
    window.rows = evenly_spread(window.rows, 24);
    window.columns = evenly_spread(window.columns, 96);
    if (!h.only.rows.empty()) window.rows = h.only.rows;
    if (!h.only.columns.empty()) window.columns = h.only.columns;
    bench.choose(window);
    const auto trial = bench.run({&h});
    if (!trial || trial->fixed < kLeastExplained || trial->fixed * 10 < trial->seen * 8) continue;
    Output& output = bench.outputs().front();
    const Place place = place_of(output, [&](Index i) {
      return output.marks[static_cast<std::size_t>(i)] == Mark::differs;
    });
    Claim claim;
    claim.id = h.name;
    claim.sentence = h.phrase + ", in " + place.words + judged_on(trial->seen, output.left);
    claim.where = place.where;
    claim.elements = static_cast<double>(output.left) * static_cast<double>(trial->fixed) /
                     static_cast<double>(trial->seen);
    claim.confirmed = static_cast<double>(trial->fixed);
    if (trial->fixed == trial->seen) {
      for (Index i = 0; i < output.rows * output.columns; ++i) output.settle(i);
    }
    return {claim};
  }
  return {};
}

/// What gives everything but for the last bits of f32 outputs: what is left is another arithmetic.
std::vector<Claim> settle_last_bits(Bench& bench, const std::vector<const Hypothesis*>& list) {
  if (bench.windowed()) return {};
  bench.choose_whole();
  Claim claim;
  std::uint64_t units = 0;
  int alike = 0;
  for (const Hypothesis* h : list) {
    const auto trial = bench.run({h});
    if (!trial || !trial->last_bits.all() || alike == 3) continue;
    if (claim.sentence.find(h->phrase) != std::string::npos) continue;
    if (claim.id.empty()) {
      claim.id = h->name;
      units = trial->last_bits.units;
    }
    claim.sentence += (alike++ > 0 ? "; as well if " : "") + h->phrase;
  }
  if (claim.id.empty()) return {};
  std::string names;
  for (Output& o : bench.outputs()) {
    if (o.left == 0) continue;
    claim.elements += static_cast<double>(o.left);
    if (o.expected->dtype() == Dtype::f32) names += (names.empty() ? "" : " and ") + o.name;
    claim.where.tensor += (claim.where.tensor.empty() ? "" : ", ") + o.name;
    for (std::size_t i = 0; i < o.marks.size(); ++i) o.settle(static_cast<Index>(i));
  }
  claim.sentence += ", but for the last bits of " + names + ": at most " + std::to_string(units) +
                    (units == 1 ? " unit" : " units") + " in the last place";
  return {claim};
}

/// Tables of groups are small, and what can be altered in part is.
bool alters_whole_operands(const Hypothesis& h) {
  return h.stage == Stage::input && !h.local && !h.measured && h.target != Target::group_ends;
}

/// Another sum or rounding is that of every element: not of those that another cause leaves.
bool is_of_all(const Hypothesis& h) { return h.stage == Stage::sum || h.stage == Stage::output; }

/// A tensor has one format: another one that gives the NaN of some rows only is not all there is.
bool is_format_of_a_part(const Hypothesis& h, const Claim& claim, Extent extent) {
  return extent == Extent::all && h.target == Target::format && !claim.where.rows.empty();
}

/// Whether the call that was altered gives every bit of every output, as far as all of it was run.
bool gives_call(const Bench& bench, const Candidate& c) {
  return !bench.windowed() && !bench.by_rows() && c.trial.all() &&
         std::all_of(c.trial.credits.begin(), c.trial.credits.end(),
                     [](const Credit& credit) { return credit.astray == 0; });
}

/// Where hypotheses are tried first.  What is of all elements or of none is tried on a few: a model
/// of a machine costs more than any other hypothesis, and most of them fail at once.
class Windows {
 public:
  Windows(Bench& bench, Extent extent) : bench_(bench), all_(extent == Extent::all) {
    bench.choose(2, 16);
    few_ = bench.window();
    bench.choose(8, 64);
    some_ = bench.window();
  }
  std::optional<Trial> run(const Hypothesis& h) {
    if (bench_.windowed() && (all_ || is_of_all(h))) {
      bench_.take(few_);
      auto trial = bench_.run({&h});
      if (!trial || trial->broken > 0) return all_ ? std::nullopt : std::move(trial);
    }
    bench_.take(some_);
    auto trial = bench_.run({&h});
    const bool fails = all_ && trial && trial->broken > 0 && !trial->last_bits.all();
    return fails ? std::nullopt : std::move(trial);
  }

 private:
  Bench& bench_;
  bool all_;
  Window few_;
  Window some_;
};

}  // namespace

std::vector<Claim> search(Backend& backend, const Call& call, std::vector<Output>& outputs,
                          std::vector<Hypothesis> list, const Progress& progress, Nearest& nearest,
                          Extent extent) {
  std::vector<Claim> claims;
  Bench bench(backend, call, outputs);
  for (int round = 0; round < kRounds && left_of(outputs) > 0; ++round) {
    const Index before = left_of(outputs);
    const Weighing evidence(outputs);
    const double family = std::log2(static_cast<double>(list.size()) + 1.0);
    const auto keep = [&](const std::vector<Claim>& named, int causes, bool whole) {
      double cost = causes * family;
      const bool all =
          left_of(outputs) == 0 && named.front().judged() >= static_cast<double>(before);
      if (all && !named.front().measured) {
        if (whole && evidence.names_call(outputs)) return true;
        cost -= evidence.place_told(outputs);
      }
      if (evidence.names(named, outputs, cost)) return true;
      evidence.restore(outputs);
      return false;
    };
    for (Output& o : outputs) find_live(o);
    Windows windows(bench, extent);
    std::vector<Candidate> found;
    std::vector<std::pair<double, const Hypothesis*>> near;
    std::vector<Claim> settled;
    std::vector<const Hypothesis*> but_for_last_bits;
    // What alters whole operands comes last, and not at all where something else gives every bit.
    for (const bool whole_operands : {false, true}) {
      for (std::size_t i = 0; i < list.size(); ++i) {
        const Hypothesis& h = list[i];
        if (progress) progress(static_cast<double>(i) / static_cast<double>(list.size()), h.name);
        if (!h.only.rows.empty() || !h.only.columns.empty()) continue;
        if (alters_whole_operands(h) != whole_operands) continue;
        if (round > 0 && is_of_all(h)) continue;
        auto trial = windows.run(h);
        if (!trial) continue;
        near.emplace_back(trial->gain_db, &h);
        // What gives every bit of a window is no nearer: it is named, or it fails elsewhere.
        if (claims.empty() && !trial->all() && trial->gain_db > nearest.gain_db)
          nearest = {h.phrase, trial->gain_db};
        if (round == 0 && trial->last_bits.all()) but_for_last_bits.push_back(&h);
        if (promising(*trial) && !cannot_be(h, *trial, outputs))
          found.push_back({{&h}, std::move(*trial)});
      }
      const bool all =
          std::any_of(found.begin(), found.end(), [](const Candidate& c) { return c.trial.all(); });
      if (!all && !but_for_last_bits.empty()) {
        settled = settle_last_bits(bench, but_for_last_bits);
        if (!settled.empty() && !keep(settled, 1, false)) settled.clear();
        if (!settled.empty()) break;
      }
      if (!all && !whole_operands && bench.windowed()) continue;
      std::vector<Candidate> now = found;
      settled = settle_best(bench, now);
      if (!settled.empty() &&
          (is_format_of_a_part(*now.front().hypotheses.front(), settled.front(), extent) ||
           !keep(settled, 1, gives_call(bench, now.front())))) {
        evidence.restore(outputs);
        settled.clear();
      }
      if (!settled.empty()) break;
    }
    if (settled.empty()) {
      // Pairs: whatever came nearest, with everything else.
      std::stable_sort(near.begin(), near.end(),
                       [](const auto& a, const auto& b) { return a.first > b.first; });
      bench.choose(6, 32);
      std::vector<Candidate> pairs;
      for (std::size_t b = 0; b < std::min(kBases, near.size()); ++b) {
        if (near[b].first < kNear) break;
        for (const auto& [gain, other] : near) {
          const Hypothesis* first = near[b].second;
          const Hypothesis* second = other;
          if (first == second || !combine(*first, *second)) continue;
          if (second->stage < first->stage) std::swap(first, second);
          auto trial = bench.run({first, second});
          // Two causes at once need more than what is left of others by chance.
          const bool enough = trial && (round == 0 || trial->fixed >= kLeastExplained);
          if (!enough || !promising(*trial) || cannot_be(*first, *trial, outputs) ||
              cannot_be(*second, *trial, outputs)) {
            continue;
          }
          Candidate pair{{first, second}, std::move(*trial)};
          if (both_matter(bench, pair)) pairs.push_back(std::move(pair));
        }
        if (!pairs.empty()) break;
      }
      settled = settle_best(bench, pairs);
      if (!settled.empty() && !keep(settled, 2, false)) settled.clear();
    }
    if (settled.empty()) settled = settle_sampled(bench, list);
    claims.insert(claims.end(), settled.begin(), settled.end());
    if (left_of(outputs) == before) break;
  }
  return claims;
}

}  // namespace mxo
