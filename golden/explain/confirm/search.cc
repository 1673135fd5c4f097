// Which hypotheses are named: tried alone, but for last bits, in pairs and on sampled lines.
#include "golden/explain/alter/alterations.h"
#include "golden/explain/confirm/altered_call_runner.h"
#include "golden/explain/confirm/score.h"
#include "golden/explain/find/output/recover.h"

namespace mxo {
namespace {

constexpr int kRounds = 4;            ///< causes that take hold of different elements
constexpr double kNear = 3.0;         ///< dB nearer that pair a hypothesis with any other
constexpr double kNearBoth = 0.5;     ///< and with one that is as near: two roundings
constexpr std::size_t kBases = 4;     ///< of pairs
constexpr std::size_t kLookedAt = 6;  ///< candidates that are run on a wider window
constexpr Index kLeastNews = 4;       ///< elements that one of a pair leaves to the other
constexpr double kSmallWork = 1e7;    ///< multiply-adds of all lines that fail
constexpr Index kLeastSampled = 8;    ///< elements that a cause of some lines gives

/// Both of a pair have to matter: neither gives as much alone, where the pair was run, nor all but
/// an element or two, which any other would do that alters these.
bool both_matter(AlteredCallRunner& runner, const Candidate& pair) {
  return std::ranges::all_of(pair.hypotheses, [&](const Hypothesis* h) {
    const auto alone = runner.run({h});
    return !alone ||
           (alone->fixed < pair.trial.fixed && alone->broken - pair.trial.broken >= kLeastNews);
  });
}

/// What alters whole operands comes last, and not at all where something else gives every bit.
/// Tables of groups are small, and what can be altered in part is.
bool alters_whole_operands(const Hypothesis& h) {
  return h.stage == Stage::input && !h.local && (!h.measured || h.last) &&
         h.target != Target::group_ends;
}

class Search {
 public:
  Search(AlteredCallRunner runner, List list, const Progress& progress, Nearest& nearest,
         Extent extent)
      : runner_(std::move(runner)),
        list_(std::move(list)),
        progress_(progress),
        nearest_(nearest),
        extent_(extent) {}

  Claims claims() {
    const Snapshot start(outputs());
    for (round_ = 0; round_ < kRounds && left_of(outputs()) > 0; ++round_) {
      const Index before = left_of(outputs());
      near_.clear();
      for (Output& o : outputs()) find_live(o);
      Claims explained = singles();
      if (!explained.empty() && left_of(outputs()) > 0 && round_ == 0) {
        // A cause of all but the last bits says more than the same of a part.
        const Snapshot part(outputs());
        start.restore(outputs());
        if (auto all = but_for_last_bits(near_of_16_bits_); !all.empty()) {
          explained = std::move(all);
        } else {
          part.restore(outputs());
        }
      }
      if (explained.empty()) explained = pairs();
      if (explained.empty()) explained = but_for_last_bits(near_of_16_bits_);
      if (explained.empty()) explained = on_sampled_lines();
      if (!explained.empty()) named_.push_back(best_);
      append(claims_, std::move(explained));
      if (left_of(outputs()) == before) break;
    }
    if (named_.size() > 1 && left_of(outputs()) == 0) keep_one_that_gives_all(start);
    if (exact_ && claims_.empty()) nearest_ = {};  // too few elements tell that it was that
    return std::move(claims_);
  }

 private:
  std::vector<Output>& outputs() { return runner_.outputs(); }

  /// The only judge: what is explained of the outputs, where the bits that it explains are worth
  /// more than those that it takes to say it.
  template <typename MarkExplained>
  Claims named(int causes, MarkExplained mark_explained) {
    const Index before = left_of(outputs());
    const Weighing evidence(outputs());
    bool gives_all_of_call = false;
    Claims claims = mark_explained(gives_all_of_call);
    if (!claims.empty()) {
      double cost = causes * std::log2(static_cast<double>(list_.size()) + 1.0);
      const Claim& first = claims.front();
      const bool all = left_of(outputs()) == 0 && first.judged() >= static_cast<double>(before);
      const bool no_more = left_of(outputs()) == 0 && runner_.alters_no_more(best_);
      if (!no_more && runner_.windowed() && is_of_whole(best_)) {
        evidence.restore(outputs());
        return {};
      }
      double most = HUGE_VAL;
      if (all && no_more && !first.measured) {
        if (gives_all_of_call && evidence.names_call(outputs())) return claims;
        cost -= evidence.place_told(outputs());
      } else {
        for (std::size_t n = 0; n < outputs().size(); ++n) {
          const std::vector<Index> explained = evidence.explained(outputs(), n);
          if (explained.empty()) continue;
          if (runner_.windowed()) most = std::min(most, bits_of_powers(outputs()[n], explained));
          if (runner_.windowed() || !all)
            most = std::min(most, bits_of_operands(runner_.call(), best_, outputs()[n], explained));
        }
      }
      if (evidence.names(claims, outputs(), cost, most)) return claims;
    }
    evidence.restore(outputs());
    return {};
  }

  /// A pair is named after what gives one of its outputs alone, but may give that one, too.
  void keep_one_that_gives_all(const Snapshot& start) {
    if (runner_.windowed()) return;
    const Snapshot now(outputs());
    for (const auto& hypotheses : named_) {
      start.restore(outputs());
      for (Output& o : outputs()) find_live(o);
      runner_.choose_whole();
      auto trial = runner_.run(hypotheses);
      if (!trial || !trial->all()) continue;
      Claims one = mark_explained(runner_, {hypotheses, std::move(*trial)});
      if (one.size() != 1 || left_of(outputs()) > 0) continue;
      claims_ = std::move(one);
      return;
    }
    now.restore(outputs());
  }

  Claims singles() {
    Windows windows(runner_, extent_);
    std::vector<Candidate> found;
    std::vector<const Hypothesis*> near_of_f32;
    const Hypothesis* nearest = nullptr;
    std::vector<std::pair<Index, Index>> rules;  // of scales, tried: fixed, broken
    std::optional<RunResult> refused;            // what gives most of what is none of a part
    for (const bool whole_operands : {false, true}) {
      for (const Hypothesis& h : list_) {
        const auto done = static_cast<double>(&h - list_.data());
        if (progress_) progress_(done / static_cast<double>(list_.size()), h.name);
        if (h.is_of_lines() || alters_whole_operands(h) != whole_operands) continue;
        if (round_ > 0 && h.is_of_all()) continue;
        auto trial = windows.run(h);
        if (!trial) continue;
        near_.emplace_back(trial->gain_db, &h);
        if (h.target == Target::scale_rule) rules.emplace_back(trial->fixed, trial->broken);
        // What gives every bit of a window is no nearer: it is named, or it fails elsewhere.
        if (claims_.empty() && !trial->all() && trial->least_gain_db > nearest_.gain_db) {
          nearest_ = {h.phrase, trial->least_gain_db};
          nearest = &h;
        }
        exact_ = exact_ || (trial->all() && !runner_.windowed());
        if (round_ == 0 && trial->last_bits.all() && trial->last_bits.units > 0)
          (trial->last_bits.differing > 0 ? near_of_16_bits_ : near_of_f32).push_back(&h);
        if (worth_running(*trial) && !contradicts(h, *trial, outputs()) &&
            moves_ends_so(h, runner_)) {
          found.push_back({{&h}, std::move(*trial)});
        } else if (trial->fixed > (refused ? refused->fixed : 0) &&
                   trial->fixed * 2 >= trial->seen) {
          refused = std::move(*trial);
        }
      }
      // Of rules of scales the one that gives most, or none: others give what it spares.
      const auto is_of_another = [&](const Candidate& c) {
        const std::pair own(c.trial.fixed, c.trial.broken);
        const auto gives_as_much = [&](const auto& r) { return r.first >= own.first && r != own; };
        return (refused && c.trial.gives_less(*refused)) ||
               (c.hypotheses.front()->is_rule() && !c.trial.all() &&
                std::ranges::any_of(rules, gives_as_much));
      };
      std::erase_if(found, is_of_another);
      const bool all = std::ranges::any_of(found, [](const Candidate& c) { return c.trial.all(); });
      Claims claims;
      if (!all) claims = but_for_last_bits(near_of_f32);
      if (claims.empty() && (all || whole_operands || !runner_.windowed()))
        claims = named(1, [&](bool& whole) { return mark_best(found, whole); });
      if (!claims.empty()) return claims;
    }
    if (nearest != nullptr && runner_.windowed()) {
      runner_.choose(64, 256);  // a few elements may come near by chance
      const auto trial = runner_.run({nearest});
      nearest_.gain_db = std::min(nearest_.gain_db, trial ? trial->least_gain_db : 0.0);
    }
    return {};
  }

  struct Base {
    const Hypothesis* hypothesis;
    bool with_any;  ///< pairs with any other, not only with what is near itself
  };

  /// What came nearest, and what alters one side of a product so that the other needs no more than
  /// other scales.
  std::vector<Base> bases() {
    std::vector<Base> list;
    for (const auto& [gain, h] : near_)
      if (gain >= kNearBoth && list.size() < kBases) list.push_back({h, gain >= kNear});
    if (!runner_.windowed() || round_ > 0) return list;
    Hypotheses all;
    for (const auto& [gain, h] : near_) all.push_back(h);
    for (const Hypothesis* h : leaving_scales(runner_.call(), outputs().front(), all, kBases))
      list.push_back({h, true});
    return list;
  }

  /// Bases with everything else.
  Claims pairs() {
    std::stable_sort(near_.begin(), near_.end(),
                     [](const auto& a, const auto& b) { return a.first > b.first; });
    const std::vector<Base> from = bases();
    runner_.choose(6, 32);
    std::vector<Candidate> found;
    for (std::size_t b = 0; b < from.size() && found.empty(); ++b) {
      for (const auto& [gain, other] : near_) {
        if (!from[b].with_any && gain < kNearBoth) break;
        const Hypothesis* first = from[b].hypothesis;
        const Hypothesis* second = other;
        if (first == second || !combine(*first, *second)) continue;
        if (second->stage < first->stage) std::swap(first, second);
        if (second->stage == Stage::rule && !in_any_order(runner_, *first, *second)) continue;
        auto trial = runner_.run({first, second});
        if (!trial || !worth_running(*trial) || contradicts(*first, *trial, outputs()) ||
            contradicts(*second, *trial, outputs()))
          continue;
        Candidate pair{{first, second}, std::move(*trial)};
        if (both_matter(runner_, pair)) found.push_back(std::move(pair));
      }
    }
    return named(2, [&](bool&) {
      bool whole = false;
      return mark_best(found, whole);
    });
  }

  /// The best of those that still fit on a wider window; what cannot be told apart on the data
  /// shares a sentence.
  Claims mark_best(std::vector<Candidate> found, bool& gives_all_of_call) {
    std::stable_sort(found.begin(), found.end(), better);
    if (found.size() > kLookedAt) found.resize(kLookedAt);
    if (runner_.windowed()) {
      runner_.choose(64, 256);
      std::vector<Candidate> kept;
      for (Candidate& c : found) {
        auto trial = runner_.run(c.hypotheses);
        if (trial && worth_running(*trial)) kept.push_back({c.hypotheses, std::move(*trial)});
      }
      std::stable_sort(kept.begin(), kept.end(), better);
      found = std::move(kept);
    }
    if (found.empty()) return {};
    const Snapshot before(outputs());
    std::size_t n = 0;
    Claims claims = mark_explained(runner_, found[n]);
    // Two sums may part in one element of the whole: what gives all of a window is not yet the one.
    while (claims.empty() && found[n].hypotheses.front()->is_of_all() && n + 1 < found.size() &&
           found[n + 1].trial.all())
      claims = mark_explained(runner_, found[++n]);
    if (claims.empty()) return claims;
    const Candidate& best = found[n];
    best_ = best.hypotheses;
    const Hypothesis& first = *best.hypotheses.front();
    Claim& claim = claims.front();
    // A tensor has one format: another one that gives the NaN of some rows only is not all there
    // is.  Codes that are made may differ in some rows only, and all follow from it.
    const bool made = std::ranges::any_of(
        outputs(), [](const Output& o) { return is_minifloat8(o.expected->dtype()); });
    if (extent_ == Extent::all && first.target == Target::format && !made && !runner_.windowed() &&
        !claim.where.rows.empty())
      return {};
    gives_all_of_call = gives_call(runner_, best);
    // A power of two has many makers: what was found is no more than one of them.
    std::vector<std::size_t> given;  // outputs
    for (std::size_t o = 0; o < outputs().size(); ++o)
      if (!before.explained_since(outputs(), o).empty()) given.push_back(o);
    const bool one = !first.rewrite && given.size() == 1;
    const std::size_t at = one ? given.front() : 0;
    const Output& o = outputs()[at];
    if (const auto by = one ? power_of(o, before.explained_since(outputs(), at)) : std::nullopt)
      claim.sentence = filled("{}{}: {}, as it is where {}", o.left == 0 ? "all of " : "", o.name,
                              times_power_of_2(*by), claim.sentence);
    int alike = 0;
    const bool tells = !are_zeros_since(before, outputs());  // many give zeros alone
    for (std::size_t i = n + 1; tells && i < found.size() && alike < kMostEqual; ++i) {
      // What gives less than all that it alters is no equal of what gives all.
      const RunResult& other = found[i].trial;
      if (other.fixed != best.trial.fixed || other.all() != best.trial.all() ||
          (!other.all() && !other.gives_the_same(best.trial)))
        break;
      const std::string phrase = phrase_of(found[i].hypotheses);
      if (!is_another_cause(runner_.call(), *found[i].hypotheses.front(), first) ||
          claim.sentence.find(phrase) != std::string::npos ||
          ((n > 0 || !found[i].trial.all()) && !explains_the_same(found[i], before)))
        continue;
      claim.sentence += (alike == 0 ? "; equivalently, " : ", or ") + phrase;
      ++alike;
    }
    return claims;
  }

  /// Whether another candidate explains the elements that the best one does, from the same marks.
  bool explains_the_same(const Candidate& other, const Snapshot& before) {
    const std::vector<Output> best = outputs();
    before.restore(outputs());
    const bool named = !mark_explained(runner_, other).empty();
    const bool same = std::ranges::equal(best, outputs(), {}, &Output::marks, &Output::marks);
    outputs() = best;
    return named && same;
  }

  /// Causes known on some lines only: what they explain there stands for the rest.
  Claims on_sampled_lines() {
    if (!runner_.windowed()) return {};
    for (const Hypothesis& h : list_) {
      if (!h.is_of_lines()) continue;
      Window window = runner_.failing();
      const bool all =
          runner_.work(std::ssize(window.rows), std::ssize(window.columns)) <= kSmallWork;
      const auto some = [all](const std::vector<Index>& own, std::vector<Index>& lines,
                              Index most) {
        if (!own.empty()) lines = own;
        if (own.empty() && !all) lines = evenly_spread(lines, most);
      };
      some(h.only.rows, window.rows, 24);
      some(h.only.columns, window.columns, 96);
      runner_.choose(window);
      const auto trial = runner_.run({&h});
      if (!trial || trial->fixed < kLeastSampled || trial->fixed * 10 < trial->seen * 8) continue;
      Output& output = outputs().front();
      const Place place = place_of(output, [&](Index i) { return output.differs(i); });
      Claim claim;
      claim.id = h.name;
      claim.sentence = h.phrase + ", in " + place.words + judged_on(trial->seen, output.left);
      claim.where = place.where;
      claim.elements = static_cast<double>(output.left) * static_cast<double>(trial->fixed) /
                       static_cast<double>(trial->seen);
      claim.confirmed = static_cast<double>(trial->fixed);
      if (trial->fixed == trial->seen) output.mark_all();
      return {claim};
    }
    return {};
  }

  Claims but_for_last_bits(const std::vector<const Hypothesis*>& list) {
    if (list.empty() || !claims_.empty()) return {};
    return named(1, [&](bool&) { return mark_last_bits(runner_, list); });
  }

  AlteredCallRunner runner_;
  List list_;
  const Progress& progress_;
  Nearest& nearest_;
  Extent extent_;
  int round_ = 0;
  bool exact_ = false;  ///< a hypothesis gives every bit
  Claims claims_;
  std::vector<const Hypothesis*> near_of_16_bits_;          ///< but for their last bits
  Hypotheses best_;                                         ///< of those that were weighed last
  std::vector<Hypotheses> named_;                           ///< of every round
  std::vector<std::pair<double, const Hypothesis*>> near_;  ///< of this round
};

}  // namespace

Claims search(Backend& backend, const Call& call, std::vector<Output>& outputs, List list,
              const Progress& progress, Nearest& nearest, Extent extent) {
  return Search(AlteredCallRunner(backend, call, outputs), std::move(list), progress, nearest,
                extent)
      .claims();
}

}  // namespace mxo
