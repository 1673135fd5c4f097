// Rows that travel between ranks: a row late, to another rank, with other weights or scales, or
// summed over their slots in another way.
#include <cstring>
#include <set>

#include "golden/explain/alter/alterations.h"
#include "golden/explain/find/output/slots.h"

namespace mxo {
namespace {

/// A gradient of rows that came back as the sum that it is.
Call as_combine(Call call) {
  call.op = "combine";
  for (const std::string& name : names_ending(call.inputs, ".dy")) {
    call.inputs[rank_of(name) + "y"] = call.inputs.at(name);
    call.inputs.erase(name);
  }
  for (const std::string& name : names_ending(call.inputs, ".x")) call.inputs.erase(name);
  return call;
}

/// How slots are added up.
struct Sum {
  const char* name;
  const char* phrase;
  bool narrow = false;    ///< rounded to the type of the rows after every slot
  bool products = false;  ///< weighed rows rounded so, too
  bool backward = false;  ///< from the last slot to the first
};

constexpr Sum kSums[] = {
    {"slots=bf16", "slots are added up in bf16", true},
    {"slots=bf16_products", "weighted rows are rounded to bf16 and added up in bf16", true, true},
    {"slots=reversed", "slots are added up from the last to the first", false, false, true},
    {"slots=bf16_reversed", "slots are added up in bf16, from the last to the first", true, false,
     true},
};

NamedTensors summed(Backend& backend, const Call& call, const Sum& how) {
  const Index slots = slots_of(call);
  const bool combines = call.op == "combine";
  NamedTensors total;
  for (Index i = 0; i < slots; ++i) {
    const Index slot = how.backward ? slots - 1 - i : i;
    for (auto& [name, rows] : rows_of_slot(backend, call, slot)) {
      const std::string rank = rank_of(name);
      const auto at = total.try_emplace(rank + (combines ? "out" : "dx"), Dtype::f32, rows.shape());
      Tensor& sums = at.first->second;
      for (Index e = 0; e < rows.elements(); ++e) {
        const auto narrow = [&rows = rows, e](float v) {
          store_wide(rows, e, v);
          return wide_value(rows, e);
        };
        float v = wide_value(rows, e);
        if (combines && call.has(rank + "weights"))
          v *= call.input(rank + "weights").as<float>()[e / rows.shape().back() * slots + slot];
        if (how.products) v = narrow(v);
        float& sum = sums.as<float>()[e];
        sum += v;
        if (how.narrow) sum = narrow(sum);
      }
      if (i + 1 == slots)
        sums = with_values(std::move(rows), [&](Index e) { return sums.as<float>()[e]; });
    }
  }
  return total;
}

/// Codes without their scales, quantised once more: what is sent instead.
NamedTensors send_requantised(Backend& backend, const Call& call) {
  const std::vector<std::string> names = names_ending(call.inputs, ".codes");
  if (names.empty()) return {};
  Call altered = call;
  const std::string format(call.set.text("format", "e4m3"));
  for (const std::string& name : names) {
    const std::string scales = rank_of(name) + "scales";
    Call decode{"decode", {}, Parameters({{"format", format}}), nullptr};
    decode.replace("codes", call.input(name));
    Call quantize{"quantize", {}, Parameters({{"format", format}}), nullptr};
    quantize.replace("x", std::move(run_call(backend, decode).begin()->second));
    if (size_of(call.input(scales).dtype()) == 4) quantize.set.set("block", "1x128");
    NamedTensors parts = run_call(backend, quantize);
    altered.replace(name, std::move(parts.at("codes")));
    altered.replace(scales, std::move(parts.at("scales")));
  }
  return run_call(backend, altered);
}

/// All of these names, and where they are several, each alone.
std::vector<std::vector<std::string>> all_and_each(const std::vector<std::string>& names) {
  std::vector<std::vector<std::string>> sets;
  if (!names.empty()) sets.push_back(names);
  for (const std::string& name : names)
    if (names.size() > 1) sets.push_back({name});
  return sets;
}

/// Rows of these operands are those `by` rows on.
void add_moved(List& list, const char* id, std::string phrase, std::vector<std::string> names,
               Index by) {
  add_altered(list, id, std::move(phrase), [names = std::move(names), by](Call& c) {
    for (const std::string& name : names) c.replace(name, rows_moved(c.input(name), by));
  });
}

/// Scales of rows that travel, sent beside other codes or written so.
void add_moved_scales(const Call& call, List& list) {
  for (const auto& names : all_and_each(names_ending(call.inputs, ".scales"))) {
    for (const Index by : {-1, 1}) {
      const std::string of = names.size() > 1 ? "scales" : names.front();
      const char* how =
          by < 0 ? "one row late beside their codes" : "one row early beside their codes";
      add_moved(list, "scales=shifted", filled("{} are sent {}", of, how), names, by);
      add_rewritten(list, "scales=shifted",
                    filled("{} are written {} where they are received", of, how),
                    [names, by](const Call&, NamedTensors& out) {
                      for (const std::string& name : names) {
                        const auto at = out.find(name);
                        if (at != out.end()) at->second = rows_moved(at->second, by);
                      }
                    })
          .stage = Stage::input;
    }
  }
}

/// Scales of rows that travel.
void add_sent_scales(const Call& call, List& list) {
  const std::vector<std::string> scales = names_ending(call.inputs, ".scales");
  if (scales.empty()) return;
  const auto add = [&](std::string phrase, const Lay& lie, const Lay& read) {
    add_altered(list, "scales=misread", std::move(phrase), [=](Call& c) {
      for (const std::string& name : scales) read_whole(c, read_lying(name, lie, read));
    });
  };
  const Index columns = call.input(scales[0]).shape().back();
  std::set<Index> strides;
  for (const Index to : {4, 16, 32}) strides.insert(round_up(columns, to));
  strides.erase(columns);
  for (const Index lie : strides)
    add(filled("scales of rows that lie {} apart are read {} apart", lie, columns),
        {Lay::rows, lie}, {Lay::rows});
  add("scales lie column by column, and the stride from column to column is taken for 1",
      {Lay::columns}, {Lay::columns, 1});
}

/// Slots whose experts lie on another rank than the token, or on its own.
void add_zero_slots(const Call& call, List& list) {
  const Index ranks = std::ssize(names_ending(call.inputs, ".experts"));
  if (!call.op.ends_with("_backward") || ranks < 2) return;
  const Index own = call.set.integer("experts", 0) / ranks;
  for (const bool others : {true, false}) {
    add_rewritten(
        list, "dweights=zero",
        filled("dweights of slots whose expert is on {} are zero",
               others ? "another rank than their token" : "the rank of their token"),
        [own, others](const Call& c, NamedTensors& out) {
          for (const std::string& name : names_ending(out, ".dweights")) {
            const Tensor& experts = c.input(rank_of(name) + "experts");
            const Index rank = std::stoll(name.substr(4));
            Tensor& t = out.at(name);
            for (Index i = 0; i < t.elements(); ++i)
              if ((experts.as<std::int32_t>()[i] / own != rank) == others) store_wide(t, i, 0.0f);
          }
        },
        Stage::input);
  }
}

/// An operand of every rank that is the next one's.
struct OfNextRank {
  const char* op;  ///< how it begins
  const char* end;
  const char* name;
  const char* phrase;
  bool whole = false;  ///< of ranks with as many rows alone; else as far as they reach
};

constexpr OfNextRank kOfNextRank[] = {
    {"dispatch", ".x", "rows=ranks", "every rank sends the rows of the next", true},
    {"combine", ".weights", "weights=ranks", "every rank takes the weights of the next"},
    {"combine", ".y", "y=ranks", "every rank takes the rows of the next"},
    {"dispatch_backward", ".dy", "dy=ranks", "every rank takes the rows of the next"},
};

bool take_next(Call& call, const OfNextRank& row) {
  const std::vector<std::string> names = names_ending(call.inputs, row.end);
  const Call given = call;
  for (std::size_t i = 0; i < names.size(); ++i) {
    Tensor own = given.input(names[i]);
    const Tensor& next = given.input(names[(i + 1) % names.size()]);
    if (own.dtype() != next.dtype() || (row.whole && own.shape() != next.shape())) return false;
    std::memcpy(own.data(), next.data(), std::min(own.bytes(), next.bytes()));
    call.replace(names[i], std::move(own));
  }
  return names.size() > 1;
}

void add_next_ranks(const Call& call, List& list) {
  for (const OfNextRank& row : kOfNextRank) {
    if (call.op != row.op || names_ending(call.inputs, row.end).size() < 2) continue;
    Hypothesis& h =
        add_altered(list, row.name, row.phrase, [&row](Call& c) { return take_next(c, row); });
    if (row.whole) h.target = Target::format;
  }
}

}  // namespace

Index slots_of(const Call& call) {
  for (const auto& [name, tensor] : call.inputs)
    if (name.ends_with(".experts") && tensor->rank() == 2) return tensor->extent(1);
  return 0;
}

NamedTensors combined(Backend& backend, Call call) {
  const bool weighs = !names_ending(call.inputs, ".x").empty();
  if (call.op != "dispatch_backward" || weighs) return run_call(backend, call);
  NamedTensors out;
  for (auto& [name, tensor] : run_call(backend, as_combine(std::move(call))))
    out.emplace(rank_of(name) + "dx", std::move(tensor));
  return out;
}

NamedTensors rows_of_slot(Backend& backend, const Call& call, Index slot) {
  Call one = as_combine(call);
  for (const std::string& name : names_ending(call.inputs, ".experts")) {
    const Tensor& experts = call.input(name);
    const Index slots = experts.extent(1);
    one.replace(rank_of(name) + "weights",
                with_values(Tensor(Dtype::f32, experts.shape()),
                            [&](Index i) { return i % slots == slot ? 1.0f : 0.0f; }));
  }
  return run_call(backend, one);
}

void add_rank_hypotheses(const Call& call, List& list) {
  const bool combines = call.op == "combine";
  const bool returns = combines || call.op == "dispatch_backward";
  if (call.op == "dispatch") {
    add_run(list, "scales=again", "scales are thrown away and codes are quantised once more",
            send_requantised, Stage::input);
    add_next_ranks(call, list);
    for (const std::string& name : names_ending(call.inputs, ".x"))
      add_moved(list, "rows=shifted", "rows of " + name + " are sent one late, the first as it is",
                {name}, -1);
    add_moved_scales(call, list);
    add_sent_scales(call, list);
  }
  const std::vector<std::string> returned = names_ending(call.inputs, combines ? ".y" : ".dy");
  for (const Index by : {-1, 1}) {
    if (!returns) break;
    for (const std::vector<std::string>& names : all_and_each(returned))
      add_moved(list, "rows=shifted",
                filled("slots take the row {} their own{}", by < 0 ? "before" : "after",
                       names.size() == returned.size() ? "" : " of " + names.front()),
                names, by);
  }
  const Index slots = returns ? slots_of(call) : 0;
  if (slots > 1 && combines) {
    std::vector<Reading> weights;
    for (const std::string& name : names_ending(call.inputs, ".weights"))
      weights.push_back(read_elements(name, [=](Index i) { return i / slots + i % slots; }));
    add_read(list, "weights=stride",
             filled("weights of tokens are read 1 apart rather than {}", slots), weights);
    const Index experts = call.set.integer("experts", 0);
    const Index own = experts / std::ssize(returned);
    for (const auto& [n, stride] : std::set<std::pair<Index, Index>>{
             {experts, experts}, {experts, slots}, {own, own}, {own, slots}}) {
      if (n < slots) continue;
      add_altered(
          list, "weights=by_number",
          filled("the weight of slot s of token t is number {} t + s of a matrix of tokens "
                 "and {} {}, 0 where a token did not choose one",
                 stride, n, n < experts ? "experts of the rank that has its row" : "experts"),
          [n = n, stride = stride](Call& c) {
            for (const std::string& name : names_ending(c.inputs, ".weights"))
              c.replace(name, read_by_expert(c.input(name), c.input(rank_of(name) + "experts"), n,
                                             stride));
          });
    }
  }
  for (const Sum& sum : kSums) {
    if (slots < 2) break;
    add_run(list, sum.name, sum.phrase, [&sum](Backend& b, const Call& c) {
      return summed(b, c, sum);
    }).stage = Stage::sum;
  }
  add_zero_slots(call, list);
  if (returns) add_next_ranks(call, list);
}

}  // namespace mxo
