// The search: singles on a slice, confirmation, then pairs.
#include "golden/explain/explain.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "formats/error.h"
#include "golden/explain/hypotheses.h"
#include "golden/explain/match.h"

namespace mxo {
namespace {

/// Multiply-adds that a confirmation on the whole may cost.
constexpr double kWholeWork = 3e9;
constexpr std::size_t kFindings = 8;

/// Part of the failing indices spread over their range, and some that do not fail.
std::vector<Index> spread(const std::vector<Index>& failing, Index extent, Index most) {
  std::set<Index> kept;
  const auto take = [&kept](Index n, Index count, auto at) {
    for (Index i = 0; i < std::min(n, count); ++i) {
      kept.insert(at(count > 1 && n > 1 ? i * (count - 1) / (std::min(n, count) - 1) : 0));
    }
  };
  const auto bad = static_cast<Index>(failing.size());
  take(std::max<Index>(2, most * 3 / 4), bad,
       [&](Index i) { return failing[static_cast<std::size_t>(i)]; });
  take(std::max<Index>(2, most / 4), extent, [](Index i) { return i; });
  return {kept.begin(), kept.end()};
}

/// What the hypotheses are held against: the whole, or a slice of a product.
class Bench {
 public:
  Bench(Backend& backend, const Call& call, const NamedTensors& expected,
        const NamedTensors& actual)
      : backend_(backend), actual_(actual), product_(call.is_product()) {
    const auto y = actual.find("y");
    if (!product_ || y == actual.end() || y->second.rank() != 2) {
      product_ = false;
      return;
    }
    owed_ = owed_rows(call);
    failing_ = failing(expected.find("y")->second, y->second, owed_);
    columns_ = y->second.extent(1);
    work_ = static_cast<double>(owed_) * static_cast<double>(columns_) *
            static_cast<double>(call.input(call.has("x.codes") ? "x.codes" : "x").extent(1));
    choose(8, 64);
  }

  /// A slice of about so many rows and columns; the whole where that is no more work.
  void choose(Index rows, Index columns) {
    if (!product_) return;
    slice_ = {spread(failing_.rows, owed_, rows), spread(failing_.columns, columns_, columns)};
    part_.clear();
    part_.emplace("y", sliced_result(actual_.find("y")->second, slice_));
  }
  /// Everything, or a large slice where everything would take seconds.
  void widen() {
    if (product_ && work_ <= kWholeWork) {  // the whole
      product_ = false;
    } else {
      choose(64, 256);
    }
  }

  /// Runs an altered call and its rewrites here.  False where a hypothesis does not apply.
  bool run(const Call& altered, const std::vector<const Hypothesis*>& rewrites, Match& found) {
    NamedTensors out;
    if (!outputs(altered, rewrites, out) || !same_shapes(out)) return false;
    found = match(out, actual(), product_ ? -1 : owed_);
    return found.compared > 0;
  }

  /// From here on slices are taken where this candidate, which fits a smaller one, does not fit.
  void look_where_it_fails(const Call& altered, const std::vector<const Hypothesis*>& rewrites) {
    NamedTensors out;
    if (columns_ == 0 || !outputs(altered, rewrites, out)) return;
    const Tensor& seen = actual().find("y")->second;
    Window wrong = failing(out.find("y")->second, seen, product_ ? seen.extent(0) : owed_);
    if (product_) {
      for (Index& r : wrong.rows) r = slice_.rows[static_cast<std::size_t>(r)];
      for (Index& c : wrong.columns) c = slice_.columns[static_cast<std::size_t>(c)];
    }
    if (!wrong.rows.empty()) failing_ = std::move(wrong);
    product_ = true;
  }

 private:
  const NamedTensors& actual() const { return product_ ? part_ : actual_; }

  /// False for an alternative whose result has another shape than what was returned.
  bool same_shapes(const NamedTensors& out) const {
    return std::all_of(out.begin(), out.end(), [&](const auto& item) {
      const auto at = actual().find(item.first);
      return at == actual().end() || (at->second.shape() == item.second.shape() &&
                                      size_of(at->second.dtype()) == size_of(item.second.dtype()));
    });
  }

  bool outputs(const Call& altered, const std::vector<const Hypothesis*>& rewrites,
               NamedTensors& out) {
    const Call call = product_ ? sliced(altered, slice_) : altered;
    try {
      out = run_call(backend_, call);
    } catch (const Error&) {
      return false;  // the alternative is no valid call: it cannot be what happened
    }
    if (product_) {
      // Block-wise scales of w keep all columns of the product; they are cut here.
      Tensor& y = out.find("y")->second;
      if (y.extent(1) != static_cast<Index>(slice_.columns.size())) {
        std::vector<Index> all(static_cast<std::size_t>(y.extent(0)));
        for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<Index>(i);
        y = sliced_result(y, {all, slice_.columns});
      }
    }
    for (const Hypothesis* h : rewrites) {
      if (h->rewrite && !h->rewrite(call, out, actual())) return false;
    }
    return true;
  }

  Backend& backend_;
  const NamedTensors& actual_;
  bool product_;
  Index owed_ = -1;
  Index columns_ = 0;
  double work_ = 0;
  Window failing_;
  Window slice_;
  NamedTensors part_;
};

struct Candidate {
  std::vector<const Hypothesis*> hypotheses;
  Call altered;
  Match match;
};

bool better(const Candidate& a, const Candidate& b) {
  if (a.match.identical() != b.match.identical()) return a.match.identical();
  return a.match.sqnr_db > b.match.sqnr_db;
}

/// Two of one stage exclude each other, but operands can be misread on both sides.
bool combine(const Hypothesis& a, const Hypothesis& b) {
  if (a.stage != b.stage) return true;
  if (a.stage == Stage::input) return a.name.substr(0, 1) != b.name.substr(0, 1);
  return a.stage == Stage::rule &&
         a.name.substr(0, a.name.find('=')) != b.name.substr(0, b.name.find('='));
}

/// Keeps the candidates that still fit on a wider slice; a chance fit is dropped.
void confirm(Bench& bench, std::vector<Candidate>& candidates) {
  bench.widen();
  for (Candidate& c : candidates) {
    if (c.match.identical()) bench.run(c.altered, c.hypotheses, c.match);
  }
  std::stable_sort(candidates.begin(), candidates.end(), better);
}

std::vector<Candidate> try_singles(Bench& bench, const Call& call,
                                   const std::vector<Hypothesis>& list, const Progress& progress) {
  std::vector<Candidate> found;
  for (std::size_t i = 0; i < list.size(); ++i) {
    if (progress)
      progress(0.5 * static_cast<double>(i) / static_cast<double>(list.size()), list[i].name);
    Candidate c{{&list[i]}, call, {}};
    if (list[i].alter(c.altered) && bench.run(c.altered, c.hypotheses, c.match)) {
      found.push_back(std::move(c));
    }
  }
  std::stable_sort(found.begin(), found.end(), better);
  return found;
}

std::vector<Candidate> try_pairs(Bench& bench, const std::vector<Candidate>& singles,
                                 const Progress& progress) {
  std::vector<Candidate> found;
  for (std::size_t i = 0; i < singles.size(); ++i) {
    if (progress) {
      progress(0.5 + 0.5 * static_cast<double>(i) / static_cast<double>(singles.size()), "pairs");
    }
    for (std::size_t j = 0; j < singles.size(); ++j) {
      const Hypothesis& a = *singles[i].hypotheses.front();
      const Hypothesis& b = *singles[j].hypotheses.front();
      const bool ordered = a.stage < b.stage || (a.stage == b.stage && i < j);
      if (!ordered || !combine(a, b)) continue;
      Candidate c{{&a, &b}, singles[i].altered, {}};
      if (b.alter(c.altered) && bench.run(c.altered, c.hypotheses, c.match)) {
        found.push_back(std::move(c));
      }
      if (found.size() > 4 * kFindings) {
        std::stable_sort(found.begin(), found.end(), better);
        found.resize(kFindings);
      }
    }
  }
  std::stable_sort(found.begin(), found.end(), better);
  return found;
}

Finding to_finding(const Candidate& c) {
  Finding f;
  for (const Hypothesis* h : c.hypotheses) {
    f.names.push_back(h->name);
    f.phrase += f.phrase.empty() ? h->phrase : " and " + h->phrase;
  }
  f.compared = c.match.compared;
  f.differing = c.match.differing;
  f.sqnr_db = c.match.sqnr_db;
  return f;
}

std::string decibels(double db) {
  if (std::isinf(db)) return db > 0 ? "inf dB" : "-inf dB";
  return std::to_string(db).substr(0, std::to_string(db).find('.') + 2) + " dB";
}

std::string sentence_of(const Explanation& e) {
  if (e.differing == 0) return "bit-identical as it is";
  if (e.findings.empty()) return "no alternative applies to this operator";
  if (!e.explained) {
    return "nothing known explains it; nearest, at " + decibels(e.findings.front().sqnr_db) +
           ", if " + e.findings.front().phrase;
  }
  std::string text = "bit-identical if " + e.findings.front().phrase;
  for (std::size_t i = 1; i < e.findings.size() && e.findings[i].differing == 0; ++i) {
    text += "; as well if " + e.findings[i].phrase;
  }
  return text;
}

}  // namespace

Explanation explain(Backend& backend, const Call& call, const NamedTensors& expected,
                    const NamedTensors& actual, const Progress& progress) {
  Explanation e;
  const Match plain = match(expected, actual, call.is_product() ? owed_rows(call) : -1);
  e.elements = plain.compared;
  e.differing = plain.differing;
  e.sqnr_db = plain.sqnr_db;
  if (plain.differing > 0) {
    const std::vector<Hypothesis> list = hypotheses_about(call);
    Bench bench(backend, call, expected, actual);
    std::vector<Candidate> found = try_singles(bench, call, list, progress);
    if (!found.empty() && found.front().match.identical()) {
      const Candidate first = found.front();
      confirm(bench, found);
      if (!found.front().match.identical()) {
        bench.look_where_it_fails(first.altered, first.hypotheses);
      }
    }
    if (found.empty() || !found.front().match.identical()) {
      bench.choose(6, 16);
      std::vector<Candidate> pairs = try_pairs(bench, found, progress);
      confirm(bench, pairs);
      if (!pairs.empty() && (found.empty() || better(pairs.front(), found.front()))) found = pairs;
    }
    e.explained = !found.empty() && found.front().match.identical();
    for (const Candidate& c : found) {
      if (e.findings.size() < kFindings) e.findings.push_back(to_finding(c));
    }
  }
  e.sentence = sentence_of(e);
  return e;
}

}  // namespace mxo
