// Kinds of faults in tables: a call, what is done to its right outputs, and what explain says of
// it.
#pragma once

#include "tests/golden/planted.h"

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

template <typename Of>
Tensor ints(std::vector<Index> shape, const Of& of) {
  return filled<std::int32_t>(Dtype::i32, std::move(shape), of);
}

/// What it gives where `edit` is done to an operand, which it is given as it was, too.
inline Edit with_operand(const char* name, std::function<void(Tensor&, const Tensor&)> edit) {
  return [=](const Call& call, NamedTensors& out) {
    out = run(call, [&](Call& c) {
      Tensor t = call.input(name);
      edit(t, call.input(name));
      c.replace(name, std::move(t));
    });
  };
}
/// What it gives where element i of an operand is of(i, its elements as they were).
template <typename T, typename Of>
Edit elements_as(const char* name, Of of) {
  return with_operand(name, [of](Tensor& t, const Tensor& given) {
    for (Index i = 0; i < t.elements(); ++i) t.as<T>()[i] = static_cast<T>(of(i, given.as<T>()));
  });
}
/// What it gives where element i of an operand is the one at from(i).
template <typename From>
Edit elements_from(const char* name, From from) {
  return with_operand(name, [from](Tensor& t, const Tensor& given) {
    runs_from(t, given, size_of(t.dtype()), from);
  });
}
/// The outputs, of which elements of one are of(i, call).
template <typename T, typename Of>
Edit output_as(const char* name, Of of) {
  return [=](const Call& call, NamedTensors& out) {
    Tensor& t = out.at(name);
    for (Index i = 0; i < t.elements(); ++i) t.as<T>()[i] = static_cast<T>(of(i, call));
  };
}

/// Gates that reach beyond a limit of 7, of gpt-oss or as they are; a router; what it counts.
inline Call gate(Settings set = {}) {
  Call call = of_x("swiglu", times(random_bf16({64, 256}, 5), 8.0f), set);
  call.set.set("rounding", "bf16");
  return call;
}
inline Call gpt_oss(Backend&) { return gate("alpha=1.702 limit=7 up_offset=1 halves=interleaved"); }
inline Call router(Backend&) {
  return of("route", {{"logits", random_floats({96, 16}, 7)}}, "top_k=4");
}
inline std::int32_t* counts(NamedTensors& out) {
  return out.at("tokens_per_expert").as<std::int32_t>();
}

inline double uniform(Index i) {
  return static_cast<double>(static_cast<std::uint32_t>(i + 1) * 2654435761u >> 8) * 0x1p-24;
}

/// A block-wise product, no two scales of x alike.
inline Call all_scales_differ(Backend& b, const ProductSize& size) {
  Call call = blockwise_product(b, 3, size);
  call.replace("x.scales", mapped(call.input("x.scales"), [](Index i, float v) {
                 return v * static_cast<float>(1.0 + uniform(i));
               }));
  return call;
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
