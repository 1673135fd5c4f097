// A bias and a column sum that go wrong, and experts of a layer with weights of others.
#include <algorithm>
#include <cmath>
#include <limits>

#include "golden/explain/hypotheses.h"

namespace mxo {
namespace {

float at(const Tensor& t, Index i) {
  return t.dtype() == Dtype::f32 ? t.as<float>()[i] : decode(t.as<BF16>()[i]);
}

/// out = y + the element of the bias that the row's number picks.
bool add_by_row(const Call& call, NamedTensors& out) {
  const Tensor& y = call.input("y");
  const Tensor& bias = call.input("bias");
  const auto sum = out.find("out");
  if (sum == out.end() || y.rank() != 2 || bias.rank() != 1 || bias.elements() == 0) return false;
  const Index columns = y.extent(1);
  for (Index i = 0; i < y.elements(); ++i) {
    const float v = at(y, i) + at(bias, i / columns % bias.elements());
    if (sum->second.dtype() == Dtype::f32) {
      sum->second.as<float>()[i] = v;
    } else {
      sum->second.as<BF16>()[i] = encode<kBF16>(v);
    }
  }
  return true;
}

/// Rows of x that row `s` of a sum adds up.
struct Summed {
  Index first;
  Index end;
};

Summed summed(const Call& call, Index s, Index sums) {
  const Index rows = call.input("x").extent(0);
  if (!call.has("group_ends") || call.input("group_ends").elements() != sums) return {0, rows};
  const auto* ends = call.input("group_ends").as<std::int32_t>();
  return {s == 0 ? 0 : Index{ends[s - 1]}, std::min<Index>(ends[s], rows)};
}

/// The row of x nearest to what row `s` of a sum came short of; -1 if none is near.
Index missing_row(const Tensor& x, const Output& sum, Index s, const Summed& of) {
  const Index columns = x.extent(1);
  Index best = -1;
  double least = std::numeric_limits<double>::infinity();
  double all = 0.0;
  for (Index c = 0; c < columns; ++c) {
    const Index i = s * columns + c;
    all += std::fabs(static_cast<double>(at(*sum.expected, i)) - at(*sum.actual, i));
  }
  for (Index r = of.first; r < of.end; ++r) {
    double away = 0.0;
    for (Index c = 0; c < columns; ++c) {
      const Index i = s * columns + c;
      const double lost = static_cast<double>(at(*sum.expected, i)) - at(*sum.actual, i);
      away += std::fabs(lost - at(x, r * columns + c));
    }
    if (away < least) {
      least = away;
      best = r;
    }
  }
  return least < all / 4 ? best : -1;
}

/// Experts of `name` [E, ...] taken from source(e, E); false where that changes nothing.
bool read_experts(Call& call, const std::string& name,
                  const std::function<Index(Index, Index)>& source) {
  const Tensor& given = call.input(name);
  const Index experts = given.extent(0);
  std::vector<Index> kept;
  bool moved = false;
  for (Index e = 0; e < experts; ++e) {
    kept.push_back(source(e, experts));
    moved = moved || kept.back() != e;
  }
  if (moved) call.replace(name, gathered(given, 0, kept));
  return moved;
}

void add_experts(const Call& call, std::vector<Hypothesis>& list) {
  const Index ranks = std::count_if(call.inputs.begin(), call.inputs.end(), [](const auto& entry) {
    return entry.first.starts_with("rank") && entry.first.ends_with(".x");
  });
  for (const std::string name : {"w1", "w2", "w1.bias", "w2.bias"}) {
    if (!call.has(name) || call.input(name).rank() < 2) continue;
    const auto add = [&](const char* id, const std::string& whose, auto source) {
      list.push_back({name + "=" + id, "experts take " + name + " of " + whose, Stage::input,
                      [name, source](Call& c) { return read_experts(c, name, source); }});
    };
    add("other_expert", "the expert before", [](Index e, Index n) { return (e + n - 1) % n; });
    add("other_expert", "the expert after", [](Index e, Index n) { return (e + 1) % n; });
    add("expert_0", "expert 0", [](Index, Index) { return Index{0}; });
    if (ranks < 2) continue;
    add("local", "the first rank: numbers of experts are those of their rank",
        [ranks](Index e, Index n) { return e % std::max<Index>(1, n / ranks); });
  }
}

}  // namespace

void add_missing_rows(const Call& call, const Output& o, std::vector<Hypothesis>& list) {
  if (call.op != "column_sum" || !call.has("x") || call.input("x").rank() != 2) return;
  const Index columns = call.input("x").extent(1);
  if (columns == 0 || o.expected->elements() % columns != 0) return;
  std::vector<Index> lost;
  std::string words;
  const Index sums = o.expected->elements() / columns;
  for (Index s = 0; s < sums; ++s) {
    if (!o.differs_in(s * columns, columns)) continue;
    const Index r = missing_row(call.input("x"), o, s, summed(call, s, sums));
    if (r < 0) continue;
    words += (lost.empty() ? "" : ", ") + std::to_string(r);
    lost.push_back(r);
  }
  if (lost.empty()) return;
  const std::string rows = lost.size() == 1 ? "row " + words + " is" : "rows " + words + " are";
  list.push_back({"rows.missing", rows + " left out of the sum", Stage::input, [lost](Call& c) {
                    Tensor x = c.input("x");
                    const std::size_t bytes = x.bytes() / static_cast<std::size_t>(x.extent(0));
                    for (const Index r : lost) {
                      std::byte* row = x.data() + static_cast<std::size_t>(r) * bytes;
                      std::fill(row, row + bytes, std::byte{0});
                    }
                    c.replace("x", std::move(x));
                    return true;
                  }});
}

void add_elementwise_hypotheses(const Call& call, std::vector<Hypothesis>& list) {
  if (call.op == "moe_layer") add_experts(call, list);
  if (call.op != "add_bias" || !call.has("y") || !call.has("bias")) return;
  list.push_back({"bias=by_row", "the bias is added by row rather than by column", Stage::output,
                  [](Call&) { return true; }, add_by_row});
}

}  // namespace mxo
