// Kinds of faults in tables: a call, what is done to its right outputs, and what explain says of
// it.
#pragma once

#include <cmath>
#include <utility>

#include "tests/golden/edited.h"

namespace mxo {

using Edit = std::function<void(const Call&, NamedTensors&)>;

/// What explain says of the right outputs, edited; or, of a near miss, does not say.
struct Kind {
  const char* said;
  std::function<Call(Backend&)> call;
  Edit edit;
};

inline NamedTensors run(Call call, const std::function<void(Call&)>& alter) {
  alter(call);
  return run_call(*make_cpu_backend(), call);
}

/// What the call gives where `alter` is done to it.
inline Edit altered(void (*alter)(Call&)) {
  return [alter](const Call& call, NamedTensors& out) { out = run(call, alter); };
}

inline Tensor ints(std::vector<Index> shape, Index (*of)(Index)) {
  Tensor t(Dtype::i32, std::move(shape));
  for (Index i = 0; i < t.elements(); ++i)
    t.as<std::int32_t>()[i] = static_cast<std::int32_t>(of(i));
  return t;
}

inline double uniform(Index i) {
  return static_cast<double>(static_cast<std::uint32_t>(i + 1) * 2654435761u >> 8) * 0x1p-24;
}

inline std::string said_of(const Kind& kind) {
  const auto b = make_cpu_backend();
  const Call call = kind.call(*b);
  const Planted p = spoiled(*b, call, [&](NamedTensors& out) { kind.edit(call, out); });
  return explain(*b, p.call, p.expected, p.actual).sentence();
}

/// Each sentence begins so.
template <std::size_t kCount>
void expect_said(const Kind (&kinds)[kCount]) {
  for (const Kind& kind : kinds) {
    const std::string text = said_of(kind);
    EXPECT_EQ(text.find(kind.said), 0u) << kind.said << "\n" << text;
  }
}

/// Nothing is named; the words say what it is.
template <std::size_t kCount>
void expect_unknown(const Kind (&kinds)[kCount]) {
  for (const Kind& kind : kinds) {
    const std::string text = said_of(kind);
    EXPECT_TRUE(text.starts_with("no known cause")) << kind.said << "\n" << text;
  }
}

/// No sentence has these words.
template <std::size_t kCount>
void expect_not_said(const Kind (&kinds)[kCount]) {
  for (const Kind& kind : kinds) {
    const std::string text = said_of(kind);
    EXPECT_EQ(text.find(kind.said), std::string::npos) << kind.said << "\n" << text;
  }
}

}  // namespace mxo
