// Faults in a table: a name, what explain has to say, and how they are planted.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "emu/backends.h"
#include "golden/explain/explain.h"
#include "golden/museum/alternatives.h"
#include "golden/museum/operands.h"

namespace mxo {

struct PlantedFault {
  const char* what;
  const char* ids;    ///< beginnings of the id that has to come first, separated by '|'
  const char* words;  ///< parts of its sentence, one of which has to be there
  std::function<Planted(Backend&)> plant;
};

/// `call`, its answer, and the answer where `edit` is done to the operands named.
inline Planted altered(Backend& b, const Call& call, std::initializer_list<const char*> names,
                       const std::function<void(Tensor&, const Tensor&)>& edit) {
  Call wrong = call;
  for (const char* name : names) {
    Tensor t = call.input(name);
    edit(t, call.input(name));
    wrong.replace(name, std::move(t));
  }
  return planted(b, call, wrong);
}

/// The answer with another value of one parameter.
inline Planted with_setting(Backend& b, const Call& call, const char* key, const char* value) {
  Call wrong = call;
  wrong.set.set(key, value);
  return planted(b, call, wrong);
}

/// quantize of random f32 [96, 512].
inline Call quantize_call(const char* block) {
  NamedTensors in;
  in.emplace("x", random_floats({96, 512}, 7));
  return make_call("quantize", in, with({{"block", block}}));
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

}  // namespace mxo
