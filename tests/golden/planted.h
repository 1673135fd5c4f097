// Faults in a table: a name, what explain has to say, and how they are planted.
#pragma once

#include <gtest/gtest.h>
#include <cmath>
#include <sstream>

#include "emu/backends.h"
#include "golden/explain/alter/alterations.h"
#include "golden/museum/alternatives.h"
#include "golden/museum/operands.h"
#include "tests/golden/ranks.h"
#include "tests/golden/tensors.h"

namespace mxo {

/// Settings of a call, in pairs or as on the command line: "key=value key=value".
class Settings : public std::vector<std::pair<std::string, std::string>> {
 public:
  using vector::vector;
  Settings(const char* text) {
    std::istringstream words(text);
    for (std::string key, value; std::getline(words, key, '=') && words >> value;) {
      emplace_back(key, value);
      words >> std::ws;
    }
  }
};

inline Call of(const char* op, NamedTensors in, const Settings& settings = {}) {
  Parameters set;
  for (const auto& [key, value] : settings) set.set(key, value);
  return make_call(op, std::move(in), set);
}
inline Call of_x(const char* op, Tensor x, const Settings& set = {}) {
  return of(op, {{"x", std::move(x)}}, set);
}

/// t, whose elements are of(i, element).
template <typename Of>
Tensor mapped(Tensor t, const Of& of) {
  for (Index i = 0; i < t.elements(); ++i) store_wide(t, i, of(i, wide_value(t, i)));
  return t;
}
inline Tensor times(Tensor t, float by) {
  return mapped(std::move(t), [by](Index, float v) { return by * v; });
}
/// Numbers from random_floats, element i times 2^exponent(i).
template <typename Exponent>
Tensor scaled_floats(std::vector<Index> shape, std::uint64_t seed, const Exponent& exponent) {
  return mapped(random_floats(std::move(shape), seed),
                [&](Index i, float v) { return std::ldexp(v, static_cast<int>(exponent(i))); });
}

/// Codes of e4m3, 1 and every third one -1.
inline Tensor ones_of_both_signs(std::vector<Index> shape) {
  return filled<std::uint8_t>(Dtype::u8, std::move(shape),
                              [](Index i) { return i % 3 == 0 ? 0xB8 : 0x38; });
}

/// Runs of `bytes` of t taken from others; those beyond the tensor stay.
inline void runs_from(Tensor& t, const Tensor& given, std::size_t bytes,
                      const std::function<Index(Index)>& source) {
  for (Index i = 0; i < static_cast<Index>(t.bytes() / bytes); ++i) {
    const Index from = source(i);
    if (from < 0 || from >= static_cast<Index>(given.bytes() / bytes)) continue;
    std::memcpy(t.data() + static_cast<std::size_t>(i) * bytes,
                given.data() + static_cast<std::size_t>(from) * bytes, bytes);
  }
}

/// A layer of eight experts in bf16 with 48 tokens of rank 0, and what is given.
inline Call moe_layer(NamedTensors in, const Settings& more = {}) {
  in.emplace("rank0.x", random_bf16({48, 64}, 3));
  in.emplace("router", random_bf16({8, 64}, 5));
  in.emplace("w1", random_bf16({8, 128, 64}, 6));
  in.emplace("w2", random_bf16({8, 64, 64}, 7));
  Call call = of("moe_layer", std::move(in), {{"top_k", "2"}, {"pipeline", "bf16"}});
  for (const auto& [key, value] : more) call.set.set(key, value);
  call.world = &ranks();
  return call;
}

using PlantsFault = std::function<Planted(Backend&)>;

/// `plant`, whose arguments but for the backend are these.
template <typename... Of, typename... Given>
PlantsFault planted_by(Planted (*plant)(Backend&, Of...), const Given&... given) {
  return [=](Backend& b) { return plant(b, given...); };
}

struct PlantedFault {
  const char* what;
  const char* ids;    ///< beginnings of the id that has to come first, separated by '|'
  const char* words;  ///< parts of its sentence, one of which has to be there
  PlantsFault plant;
};

/// `call`, its answer, and the answer where `edit` is done to the operands named.
inline Planted altered(Backend& b, const Call& call, const std::vector<const char*>& names,
                       const std::function<void(Tensor&, const Tensor&)>& edit) {
  Call wrong = call;
  for (const char* name : names) {
    Tensor t = call.input(name);
    edit(t, call.input(name));
    wrong.replace(name, std::move(t));
  }
  return planted(b, call, wrong);
}

/// The same where element i of one is of(i, its elements as they were).
template <typename T, typename Of>
Planted altered_as(Backend& b, const Call& call, const std::vector<const char*>& names,
                   const Of& of) {
  return altered(b, call, names, [&](Tensor& t, const Tensor& given) {
    for (Index i = 0; i < t.elements(); ++i) t.as<T>()[i] = static_cast<T>(of(i, given.as<T>()));
  });
}

/// The same as faults of a table: of the call that make(backend), or make(), gives.
using MakesCall = std::function<Call(Backend&)>;
template <typename Make>
MakesCall maker(const Make& make) {
  if constexpr (std::is_invocable_v<Make, Backend&>)
    return make;
  else
    return [=](Backend&) { return make(); };
}
template <typename Make, typename Edit>
PlantsFault alters(const Make& make, std::vector<const char*> names, Edit edit) {
  return [=](Backend& b) { return altered(b, maker(make)(b), names, edit); };
}
template <typename T, typename Make, typename Of>
PlantsFault elements_as(const Make& make, std::vector<const char*> names, Of of) {
  return [=](Backend& b) { return altered_as<T>(b, maker(make)(b), names, of); };
}
/// Of operands that are read from elsewhere: element i is the one at source(i), or
/// source(i, operand).
template <typename Source>
PlantsFault elements(MakesCall call, std::vector<const char*> names, Source source) {
  return alters(call, names, [=](Tensor& t, const Tensor& given) {
    runs_from(t, given, size_of(t.dtype()), [&](Index i) {
      if constexpr (std::is_invocable_v<Source, Index>)
        return source(i);
      else
        return source(i, given);
    });
  });
}
/// The same of rows of the last axis; of a tensor of one axis of its elements.
inline PlantsFault rows(MakesCall call, std::vector<const char*> names,
                        std::function<Index(Index)> source) {
  return alters(call, names, [=](Tensor& t, const Tensor& given) {
    runs_from(t, given, t.rank() == 1 ? size_of(t.dtype()) : row_bytes(t), source);
  });
}
/// Of a call whose outputs are edited.
template <typename Make, typename Edit>
PlantsFault spoils(const Make& make, Edit edit) {
  return [=](Backend& b) { return spoiled(b, maker(make)(b), edit); };
}

/// The answer with another value of one parameter.
inline Planted with_setting(Backend& b, const Call& call, const char* key, const char* value) {
  Call wrong = call;
  wrong.set.set(key, value);
  return planted(b, call, wrong);
}

/// An output in f32, as it is before it is rounded.
inline Tensor in_f32(Backend& b, Call call, const char* name = "y") {
  call.set.set("out", "f32");
  return std::move(run_call(b, call).at(name));
}

/// quantize of random f32 [96, 512].
inline Call quantize_call(const char* block) {
  return of_x("quantize", random_floats({96, 512}, 7), {{"block", block}});
}

inline Explanation explained(const Planted& p) {
  return explain(*make_cpu_backend(), p.call, p.expected, p.actual);
}

/// What explain says of the right outputs of a call where they are edited.
inline std::string said_of(const Call& call, const std::function<void(NamedTensors&)>& edit) {
  return explained(spoiled(*make_cpu_backend(), call, edit)).sentence();
}

/// What it says where the operands are.
inline std::string said_with(const Call& call, const std::function<void(Call&)>& edit) {
  Call wrong = call;
  edit(wrong);
  return explained(planted(*make_cpu_backend(), call, wrong)).sentence();
}

inline void expect_named(const PlantedFault& fault) {
  const auto backend = make_cpu_backend();
  const Planted p = fault.plant(*backend);
  const Explanation e = explain(*backend, p.call, p.expected, p.actual);
  ASSERT_FALSE(e.causes.empty()) << fault.what << ": " << e.sentence();
  for (const Cause& c : e.causes) EXPECT_GT(c.share, 0.0) << e.sentence();
  const Cause& first = e.causes.front();
  EXPECT_EQ(e.sentence().find("owed"), std::string::npos) << e.sentence();  // docs/glossary.md
  EXPECT_TRUE(starts_with_one(first.id, fault.ids) && contains_one(first.sentence, fault.words))
      << fault.what << ": " << first.id << ": " << e.sentence();
}
template <std::size_t kCount>
void expect_named(const PlantedFault (&faults)[kCount]) {
  for (const PlantedFault& fault : faults) expect_named(fault);
}

/// What only resembles a fault: something differs, and no cause has an id that begins so.
inline void expect_not_named(const char* ids, const Planted& miss) {
  const auto backend = make_cpu_backend();
  const Explanation e = explain(*backend, miss.call, miss.expected, miss.actual);
  EXPECT_GT(e.differing, 0) << ids;
  for (const Cause& c : e.causes)
    EXPECT_FALSE(starts_with_one(c.id, ids)) << c.id << ": " << e.sentence();
}

/// The same of a table, whose words are not asked.
template <std::size_t kCount>
void expect_not_named(const PlantedFault (&misses)[kCount]) {
  for (const PlantedFault& miss : misses)
    expect_not_named(miss.ids, miss.plant(*make_cpu_backend()));
}

}  // namespace mxo
