// Scales that travel a row late beside their codes, and ranks that take what is another's.
#include <algorithm>
#include <cstring>

#include "golden/explain/hypotheses.h"

namespace mxo {
namespace {

/// Rows of a tensor `by` rows on, its ends as they are.
Tensor rows_moved(const Tensor& given, Index by) {
  std::vector<Index> kept;
  const Index rows = given.extent(0);
  for (Index r = 0; r < rows; ++r) kept.push_back(std::clamp<Index>(r + by, 0, rows - 1));
  return gathered(given, 0, kept);
}

std::vector<std::string> names_ending(const Call& call, std::string_view end) {
  std::vector<std::string> names;
  for (const auto& [name, tensor] : call.inputs) {
    if (name.starts_with("rank") && name.ends_with(end)) names.push_back(name);
  }
  return names;
}

/// Scales of a rank, or of all, sent or received one row late.
void add_late_scales(const Call& call, std::vector<Hypothesis>& list) {
  std::vector<std::string> ranks = names_ending(call, ".scales");
  if (ranks.size() > 1) ranks.insert(ranks.begin(), "");
  for (const std::string& rank : ranks) {
    for (const Index by : {-1, 1}) {
      const std::string how = by < 0 ? "one row late" : "one row early";
      const std::string of = rank.empty() ? "scales" : rank;
      list.push_back({"scales=shifted", of + " are sent " + how + " beside their codes",
                      Stage::input, [rank, by](Call& c) {
                        bool any = false;
                        for (const std::string& name : names_ending(c, ".scales")) {
                          if ((!rank.empty() && name != rank) || c.input(name).extent(0) < 2)
                            continue;
                          c.replace(name, rows_moved(c.input(name), by));
                          any = true;
                        }
                        return any;
                      }});
      Hypothesis received{
          "scales=shifted",
          of + " are written " + how + " beside their codes where they are received", Stage::input};
      received.rewrite = [rank, by](const Call&, NamedTensors& out) {
        bool any = false;
        for (auto& [name, tensor] : out) {
          if (!name.ends_with(".scales") || (!rank.empty() && name != rank)) continue;
          if (tensor.extent(0) < 2) continue;
          tensor = rows_moved(tensor, by);
          any = true;
        }
        return any;
      };
      list.push_back(std::move(received));
    }
  }
}

/// Every rank has `name` of the next one, as far as that reaches.
bool take_next(Call& call, std::string_view end) {
  const std::vector<std::string> names = names_ending(call, end);
  const Call given = call;
  for (std::size_t i = 0; i < names.size(); ++i) {
    Tensor own = given.input(names[i]);
    const Tensor& next = given.input(names[(i + 1) % names.size()]);
    if (own.dtype() != next.dtype()) return false;
    std::memcpy(own.data(), next.data(), std::min(own.bytes(), next.bytes()));
    call.replace(names[i], std::move(own));
  }
  return names.size() > 1;
}

/// Every rank is given what is expected at the next one.
bool give_next(NamedTensors& out, std::string_view end) {
  std::vector<Tensor*> given;
  for (auto& [name, tensor] : out) {
    if (name.starts_with("rank") && name.ends_with(end)) given.push_back(&tensor);
  }
  for (const Tensor* t : given) {
    if (t->shape() != given.front()->shape()) return false;
  }
  for (std::size_t i = 0; i + 1 < given.size(); ++i) std::swap(*given[i], *given[i + 1]);
  return given.size() > 1;
}

void add_other_ranks(const Call& call, std::vector<Hypothesis>& list) {
  for (const auto& [end, what] :
       {std::pair{".weights", "weights"}, {".y", "rows"}, {".dy", "rows"}}) {
    if (names_ending(call, end).size() < 2) continue;
    list.push_back({std::string(end).substr(1) + "=ranks",
                    std::string("every rank takes the ") + what + " of the next", Stage::input,
                    [end = end](Call& c) { return take_next(c, end); }});
  }
  const char* end = call.op == "combine" ? ".out" : ".dx";
  Hypothesis h{"out=ranks", "every rank is given what is expected at the next", Stage::input};
  h.rewrite = [end](const Call&, NamedTensors& out) { return give_next(out, end); };
  list.push_back(std::move(h));
}

}  // namespace

void add_rank_row_hypotheses(const Call& call, std::vector<Hypothesis>& list) {
  if (call.op == "dispatch") add_late_scales(call, list);
  if (call.op == "combine" || call.op == "dispatch_backward") add_other_ranks(call, list);
}

}  // namespace mxo
