// Rows that travel between ranks: how slots are summed, and what becomes of scales on the way.
#include <cstring>

#include "golden/explain/hypotheses.h"
#include "golden/explain/find/output/slots.h"
#include "golden/explain/wide_values.h"

namespace mxo {
namespace {

enum class Order : std::uint8_t { ascending, descending };

/// The sum over slots, in bf16 after every slot (`narrow`) or at the end.
enum class Sum : std::uint8_t { f32, bf16, bf16_products };

NamedTensors summed(Backend& backend, const Call& call, Sum sum, Order order) {
  const Index slots = slots_of(call);
  NamedTensors total;
  std::map<std::string, std::vector<float>, std::less<>> sums;
  for (Index i = 0; i < slots; ++i) {
    const Index slot = order == Order::ascending ? i : slots - 1 - i;
    for (auto& [name, rows] : rows_of_slot(backend, call, slot)) {
      const std::string rank = name.substr(0, name.find('.') + 1);
      std::vector<float>& acc = sums[rank];
      acc.resize(static_cast<std::size_t>(rows.elements()));
      const auto narrow = [half = rows.dtype() == Dtype::f16](float v) {
        return half ? decode(encode<kF16>(v)) : decode(encode<kBF16>(v));
      };
      const bool weighed = call.op == "combine" && call.has(rank + "weights");
      for (Index e = 0; e < rows.elements(); ++e) {
        float v = wide_value(rows, e);
        if (weighed) {
          v *= call.input(rank + "weights").as<float>()[e / rows.shape().back() * slots + slot];
        }
        if (sum == Sum::bf16_products) v = narrow(v);
        float& a = acc[static_cast<std::size_t>(e)];
        a += v;
        if (sum != Sum::f32) a = narrow(a);
      }
      if (i + 1 < slots) continue;
      Tensor out(rows.dtype(), rows.shape());
      for (Index e = 0; e < out.elements(); ++e) {
        store_wide(out, e, acc[static_cast<std::size_t>(e)]);
      }
      total.emplace(rank + (call.op == "combine" ? "out" : "dx"), std::move(out));
    }
  }
  return total;
}

void add(std::vector<Hypothesis>& list, std::string name, std::string phrase, Sum sum,
         Order order) {
  Hypothesis h{std::move(name), std::move(phrase), Stage::sum};
  h.run = [sum, order](Backend& b, const Call& c) { return summed(b, c, sum, order); };
  list.push_back(std::move(h));
}

/// Codes without their scales, quantised once more: what is sent instead.
bool quantize_again(Backend& backend, Call& call) {
  std::vector<std::string> names;
  for (const auto& [name, tensor] : call.inputs) {
    if (name.ends_with(".codes")) names.push_back(name);
  }
  for (const std::string& name : names) {
    const std::string rank = name.substr(0, name.size() - 5);
    Call decode{"decode", {}, {}, nullptr};
    decode.set.set("format", std::string(call.set.text("format", "e4m3")));
    decode.replace("codes", call.input(name));
    Call quantize{"quantize", {}, {}, nullptr};
    NamedTensors values = run_call(backend, decode);
    quantize.replace("x", std::move(values.begin()->second));
    quantize.set.set("format", std::string(call.set.text("format", "e4m3")));
    if (size_of(call.input(rank + "scales").dtype()) == 4) quantize.set.set("block", "1x128");
    NamedTensors parts = run_call(backend, quantize);
    call.replace(name, std::move(parts.at("codes")));
    call.replace(rank + "scales", std::move(parts.at("scales")));
  }
  return !names.empty();
}

/// Every rank sends the rows of the next one; false unless they are as many.
bool exchange_ranks(Call& call) {
  std::vector<std::string> names;
  for (const auto& [name, tensor] : call.inputs) {
    if (name.ends_with(".x")) names.push_back(name);
  }
  const Call given = call;
  for (std::size_t i = 0; i < names.size(); ++i) {
    const Tensor& next = given.input(names[(i + 1) % names.size()]);
    if (next.shape() != given.input(names[i]).shape()) return false;
    call.replace(names[i], next);
  }
  return names.size() > 1;
}

/// Rows of `only`, or of every rank, `by` after each; at the end their own.
bool shift_rows(Call& call, const std::string& only, Index by) {
  std::vector<std::string> names;
  for (const auto& [name, tensor] : call.inputs) {
    const bool rows = call.op == "dispatch" ? name.ends_with(".x")
                                            : name.ends_with(".y") || name.ends_with(".dy");
    if (rows && (only.empty() || name == only) && tensor->rank() == 2) names.push_back(name);
  }
  for (const std::string& name : names) {
    std::vector<Index> kept;
    const Index rows = call.input(name).extent(0);
    for (Index r = 0; r < rows; ++r) kept.push_back(r + by < 0 || r + by >= rows ? r : r + by);
    call.replace(name, gathered(call.input(name), 0, kept));
  }
  return !names.empty();
}

/// Weights of slots as if slots were sorted by their experts: the least expert has the first.
bool sort_weights(Call& call) {
  std::vector<std::string> ranks;
  for (const auto& [name, tensor] : call.inputs) {
    const std::string rank = name.substr(0, name.find('.') + 1);
    if (name == rank + "experts" && tensor->rank() == 2 && call.has(rank + "weights")) {
      ranks.push_back(rank);
    }
  }
  for (const std::string& rank : ranks) {
    const Tensor& experts = call.input(rank + "experts");
    const Tensor& given = call.input(rank + "weights");
    if (given.elements() != experts.elements() || given.dtype() != Dtype::f32 ||
        experts.dtype() != Dtype::i32) {
      return false;
    }
    Tensor seen = given;
    const Index slots = experts.extent(1);
    for (Index t = 0; t < experts.extent(0); ++t) {
      for (Index s = 0; s < slots; ++s) {
        Index before = 0;
        for (Index o = 0; o < slots; ++o) {
          before +=
              experts.as<std::int32_t>()[t * slots + o] < experts.as<std::int32_t>()[t * slots + s];
        }
        seen.as<float>()[t * slots + s] = given.as<float>()[t * slots + before];
      }
    }
    call.replace(rank + "weights", std::move(seen));
  }
  return !ranks.empty();
}

}  // namespace

Index slots_of(const Call& call) {
  for (const auto& [name, tensor] : call.inputs) {
    if (name.ends_with(".experts") && tensor->rank() == 2) return tensor->extent(1);
  }
  return 0;
}

NamedTensors combined(Backend& backend, Call call) {
  const bool gradient = call.op == "dispatch_backward";
  if (!gradient) return run_call(backend, call);
  call.op = "combine";
  std::vector<std::pair<std::string, Tensor>> rows;
  for (const auto& [name, tensor] : call.inputs) {
    if (name.ends_with(".dy")) rows.emplace_back(name.substr(0, name.size() - 2), *tensor);
  }
  for (auto& [rank, tensor] : rows) {
    call.inputs.erase(rank + "dy");
    call.replace(rank + "y", std::move(tensor));
  }
  NamedTensors out;
  for (auto& [name, tensor] : run_call(backend, call)) {
    out.emplace(name.substr(0, name.find('.') + 1) + "dx", std::move(tensor));
  }
  return out;
}

NamedTensors rows_of_slot(Backend& backend, const Call& call, Index slot) {
  Call one = call;
  one.op = "combine";
  for (const auto& [name, tensor] : call.inputs) {
    const std::size_t dot = name.find('.');
    const std::string rank = name.substr(0, dot + 1);
    if (name.ends_with(".dy")) {
      one.inputs.erase(name);
      one.inputs.insert_or_assign(rank + "y", tensor);
    }
    if (!name.ends_with(".experts")) continue;
    Tensor weights(Dtype::f32, tensor->shape());
    for (Index i = 0; i < weights.elements(); ++i) {
      weights.as<float>()[i] = i % tensor->extent(1) == slot ? 1.0f : 0.0f;
    }
    one.replace(rank + "weights", std::move(weights));
  }
  return run_call(backend, one);
}

void add_rank_hypotheses(const Call& call, std::vector<Hypothesis>& list) {
  if (call.op == "dispatch") {
    Hypothesis h{"scales=again", "scales are thrown away and codes are quantised once more",
                 Stage::input};
    h.run = [](Backend& b, const Call& c) {
      Call altered = c;
      return quantize_again(b, altered) ? run_call(b, altered) : NamedTensors{};
    };
    list.push_back(std::move(h));
    list.push_back(
        {"rows=ranks", "every rank sends the rows of the next", Stage::input, exchange_ranks});
    list.back().target = Target::format;
    for (const auto& [name, tensor] : call.inputs) {
      if (!name.ends_with(".x")) continue;
      list.push_back({"rows=shifted", "rows of " + name + " are sent one late, the first as it is",
                      Stage::input, [name = name](Call& c) { return shift_rows(c, name, -1); }});
    }
  }
  if (call.op != "combine" && call.op != "dispatch_backward") return;
  for (const Index by : {-1, 1}) {
    const std::string side = by < 0 ? "before" : "after";
    std::vector<std::string> ranks{""};
    for (const auto& [name, tensor] : call.inputs) {
      if (name.ends_with(".y") || name.ends_with(".dy")) ranks.push_back(name);
    }
    for (const std::string& name : ranks) {
      list.push_back(
          {"rows=shifted",
           "slots take the row " + side + " their own" + (name.empty() ? "" : " of " + name),
           Stage::input, [name, by](Call& c) { return shift_rows(c, name, by); }});
    }
  }
  if (slots_of(call) < 2) return;
  if (call.op == "combine") {
    list.push_back({"weights=by_expert", "weights are taken in the order of experts", Stage::input,
                    sort_weights});
  }
  add(list, "slots=bf16", "slots are added up in bf16", Sum::bf16, Order::ascending);
  add(list, "slots=bf16_products", "weighed rows are rounded to bf16 and added up in bf16",
      Sum::bf16_products, Order::ascending);
  add(list, "slots=reversed", "slots are added up from the last to the first", Sum::f32,
      Order::descending);
  add(list, "slots=bf16_reversed", "slots are added up in bf16, from the last to the first",
      Sum::bf16, Order::descending);
}

}  // namespace mxo
